"""Policies and results as files: plain arrays and JSON that another process can serve and check."""

from tether.saving.objects import CannotSaveError as CannotSaveError
from tether.saving.save_and_load import load as load
from tether.saving.save_and_load import policy_from_bytes as policy_from_bytes
from tether.saving.save_and_load import policy_to_bytes as policy_to_bytes
from tether.saving.save_and_load import save_policy as save_policy
from tether.saving.verify_record import verify_record as verify_record

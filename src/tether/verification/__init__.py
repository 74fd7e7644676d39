"""Is it what was written: checks of saved files, and the keys that vouch for them."""

from tether._core.signing import generate_keys
from tether._core.verification import Finding, Verification
from tether.verification.saved_records import verify_record

__all__ = ["Finding", "Verification", "generate_keys", "verify_record"]

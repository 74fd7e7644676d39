"""Signatures: made by one key, for one purpose, over one content."""

import subprocess
from pathlib import Path

import pytest

from tether._core import signing


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    name = tmp_path_factory.mktemp("keys") / "ops"
    return f"{name}.key", f"{name}.pub", signing.generate_keys(name)


def test_the_key_id_is_the_fingerprint_of_ssh_keygen(pair):
    try:
        done = subprocess.run(
            ["ssh-keygen", "-lf", pair[1]], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        pytest.skip("needs ssh-keygen")
    assert done.stdout.split()[1] == pair[2]


def test_a_signature_holds_for_its_content_key_and_purpose(pair, tmp_path):
    signature, own = signing.sign(b"content", pair[0], purpose="record"), pair[1]

    def holds(content=b"content", signature=signature, key=own, purpose="record"):
        return signing.verify(content, signature, key, purpose=purpose)

    assert holds()
    assert not holds(content=b"Content")
    assert not holds(purpose="chain head")
    assert not holds(content=b"dcontent", purpose="recor")  # what is signed begins with its length
    none = ("", "ed25519:", signature[:-4], signature + "A", "ed25519:!!", signature[8:], None)
    for other in none:
        assert not holds(signature=other)
    signing.generate_keys(tmp_path / "other")
    assert not holds(key=tmp_path / "other.pub")


def test_a_private_key_that_others_may_read_is_refused(pair, tmp_path):
    copy = tmp_path / "copy.key"
    copy.write_bytes(Path(pair[0]).read_bytes())
    for mode in (0o640, 0o604, 0o644):
        copy.chmod(mode)
        with pytest.raises(PermissionError, match=r"chmod 600 .*copy.key"):
            signing.sign(b"", copy, purpose="record")
    copy.chmod(0o400)
    assert signing.sign(b"", copy, purpose="record")

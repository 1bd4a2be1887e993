"""Tables for the terminal mark the best."""

from gnncal_lab.commands.block_model import MethodRow, best_marked


def test_a_table_marks_the_lowest_score_of_each_ranked_column():
    rows = [
        MethodRow("raw", ("50", "1.0"), (None, None)),
        MethodRow("ts", ("50", "2.0"), (None, 2.0)),
        MethodRow("hots", ("50", "1.5"), (None, 1.5)),
    ]
    lines = best_marked("title", ("acc", "ECE"), rows).as_text().splitlines()
    assert [line.split() for line in lines if "*" in line] == [["hots", "50", "1.5*"]]

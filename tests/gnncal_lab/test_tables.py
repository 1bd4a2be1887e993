"""Tables for the terminal mark the best."""

from rich.console import Console

from gnncal_lab.commands.block_model import MethodRow, best_marked


def rendered(table, width=80):
    console = Console(width=width, markup=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_a_table_marks_the_lowest_score_of_each_ranked_column():
    rows = [
        MethodRow("raw", ("50", "1.0"), (None, None)),
        MethodRow("ts", ("50", "2.0"), (None, 2.0)),
        MethodRow("hots", ("50", "1.5"), (None, 1.5)),
    ]
    lines = rendered(best_marked("title", ("acc", "ECE"), rows)).splitlines()
    assert [line.split() for line in lines if "*" in line] == [["hots", "50", "1.5*"]]

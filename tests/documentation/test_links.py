"""The check of links finds what leads nowhere, and nothing else."""

from site_pages.links import broken_links


def test_links_to_files_and_anchors_that_are_there_pass(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "one.html").write_text(
        '<h1 id="a b">x</h1><a href="sub/two.html#end">y</a><a href="#a%20b">z</a><img src="p.png">'
    )
    (tmp_path / "sub" / "two.html").write_text('<a name="end"></a><a href="../one.html">x</a>')
    (tmp_path / "p.png").write_bytes(b"")
    assert broken_links(tmp_path) == []


def test_a_missing_file_and_a_missing_anchor_are_named(tmp_path):
    (tmp_path / "one.html").write_text('<a href="gone.html">x</a><a href="one.html#gone">y</a>')
    assert broken_links(tmp_path) == [
        "one.html: gone.html is not there",
        "one.html: one.html#gone has no such anchor",
    ]


def test_other_sites_are_not_asked(tmp_path):
    (tmp_path / "one.html").write_text(
        '<a href="https://example.org/x">x</a><a href="mailto:a@b.c">y</a><a href="//host/z">z</a>'
    )
    assert broken_links(tmp_path) == []

"""A file name from anywhere becomes one part of a path."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.objects.file_names import MAX_LETTERS, safe_name


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("C:\\Users\\me\\report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..", "file"),
        ("", "file"),
        ("///", "file"),
        (".htaccess", "htaccess"),
        ("Größe 1 (neu).csv", "Gr_e_1_neu_.csv"),
        ("\u202egpj.exe", "gpj.exe"),
        ("a\0b\nc.txt", "a_b_c.txt"),
        ("日本", "file"),
        ("con.txt", "file_con.txt"),
        ("x" * 300 + ".csv", "x" * (MAX_LETTERS - 4) + ".csv"),
        ("x" * 300, "x" * MAX_LETTERS),
    ],
)
def test_a_file_name_becomes_safe(given: str, safe: str) -> None:
    assert safe_name(given) == safe

"""The blocks of README and docs/ for Spark run and print what the page shows."""

import re

import pytest
from helpers import pages

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGES = [page for page in pages.PAGES if any("spark" in b.words for b in pages.blocks(page, "python"))]


@pytest.mark.parametrize("page", PAGES, ids=pages.name_of)
def test_spark_blocks_run_as_printed(page, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages.lay_files(tmp_path)
    namespace = {"__name__": "__main__", "spark": spark}
    for block in pages.blocks(page, "python"):
        if "spark" in block.words:
            # Spark's own processes have another current directory.
            code = re.sub(r'((?:load|save)\(|(?:count_rows|describe)\(spark, )"', rf'\1"{tmp_path}/', block.code)
            printed = pages.run(page, block._replace(code=code), namespace)
            assert block.output is None or pages.same(block.output, printed), f"line {block.line}:\n{printed}"

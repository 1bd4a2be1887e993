"""Engines for the tests: DuckDB always, one Spark session for all of its tests."""

import os

import pytest

pytest.importorskip("duckdb", reason="pip install 'gnncal[scale]' to test this")
pytest.importorskip("ibis", reason="pip install 'gnncal[scale]' to test this")


@pytest.fixture(scope="session")
def pyspark():
    """The package; tests that need it are skipped without it or Java, unless they are required."""
    if os.environ.get("GNNCAL_ENGINES") == "required":
        import pyspark

        return pyspark
    from gnncal.core.errors import MissingExtraError
    from gnncal.scale.engines import check_java

    found = pytest.importorskip("pyspark", reason="pip install 'gnncal[spark]' to test Spark")
    try:
        check_java()
    except MissingExtraError as error:
        pytest.skip(str(error))
    return found


@pytest.fixture(scope="session")
def spark(pyspark):
    """A local session that every test of Spark shares."""
    settings = {
        "spark.sql.shuffle.partitions": "2",
        # Compiling code for each query takes longer than a few hundred rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.ui.enabled": "false",
        "spark.sql.ansi.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = pyspark.sql.SparkSession.builder.master("local[2]").appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()

"""Engines for the tests: DuckDB always, one Spark session and one object storage for all."""

import os
import shutil
import sys

import pytest

pytest.importorskip("duckdb", reason="pip install 'gnncal[scale]' to test this")


@pytest.fixture(scope="session")
def pyspark():
    """The package; tests that need it are skipped without it or Java, unless they are required."""
    if os.environ.get("GNNCAL_ENGINES") == "required":
        import pyspark

        return pyspark
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java")
    return pytest.importorskip("pyspark", reason="pip install 'gnncal[spark]' to test Spark")


@pytest.fixture(scope="session")
def spark(pyspark):
    """A local session that every test of Spark shares."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
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


@pytest.fixture(scope="session")
def storage_server():
    """The address of a server that speaks S3, on this machine."""
    if os.environ.get("GNNCAL_ENGINES") != "required":
        pytest.importorskip("moto.server", reason="pip install 'moto[server]' to test buckets")
        pytest.importorskip("s3fs", reason="pip install 'gnncal[s3]' to test buckets")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def storage_files(storage_server):
    """An s3fs filesystem on that server."""
    import s3fs

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", storage_server)
        patch.setenv("AWS_ACCESS_KEY_ID", "tester")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        yield s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)


@pytest.fixture
def storage(storage_files):
    """That filesystem with one empty bucket, called ``bucket``."""
    storage_files.mkdir("bucket")
    yield storage_files
    storage_files.rm("bucket", recursive=True)

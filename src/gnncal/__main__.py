"""``gnncal`` and ``python -m gnncal``: the program, calibration and laboratory together."""

from gnncal.cli.main import app
from gnncal.cli.terminal import friendly
from gnncal.lab.commands import bench
from gnncal.lab.commands.csbm import csbm
from gnncal.lab.commands.demo import demo

for verb in (demo, csbm):
    app.command()(friendly(verb))
app.add_typer(bench.app, name="bench")

if __name__ == "__main__":
    app()

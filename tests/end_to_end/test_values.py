"""What a parameter says stays text, from the job file to the command on the node."""

import json

HOSTILE = ["$(touch made)", "; touch made", "`touch made`", "' x '", '" x "', "-rf", "*", "a\nb"]


def test_a_value_of_a_sweep_is_never_run(platform, tmp_path):
    platform.wait_ready()
    shown = 'python -c "import os, sys; print(os.listdir(), sys.argv[1:])"'
    body = {
        "name": "hostile",
        "setup": "printf '%s' ${{ params.x }} > $VIRTUAL_ENV/said",
        "command": f'{shown} "$(cat $VIRTUAL_ENV/said; echo .)" a${{{{ params.x }}}} "${{{{ params.x }}}} b"',
        "resources": {"gpus": 0.25},
        "env": {"SAID": "${{ params.x }}"},
        "sweep": {"method": "list", "params": [{"x": value} for value in HOSTILE]},
    }
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(body))
    job = platform.headrace("submit", "--wait", str(file)).stdout.split()[0]
    for index, value in enumerate(HOSTILE):
        said = platform.headrace("logs", f"{job}/{index}").stdout
        assert said.endswith(f"[] {[value + '.', 'a' + value, value + ' b']!r}\n"), said

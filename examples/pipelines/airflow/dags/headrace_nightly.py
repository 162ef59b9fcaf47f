"""An Airflow DAG that trains on the fleet: `airflow dags trigger headrace_nightly --conf '{"seconds": 60}'`."""

from airflow.sdk import DAG
from headrace_job import HeadraceJob  # from the plugins folder

with DAG("headrace_nightly", schedule=None, params={"seconds": 0}):
    HeadraceJob(
        task_id="train",
        job={
            "name": "nightly",
            "command": ["sleep", "{{ params.seconds }}"],
            "resources": {"gpus": 1},
        },
    )

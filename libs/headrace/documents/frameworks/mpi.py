"""MPI: `mpirun` over all nodes of the gang, without ssh.

Rule: the launchers of Open MPI (4 and 5), MPICH and Intel MPI ask an agent to start their daemon on
another node; here that agent is Headrace's (`PROGRAMS`), which passes it to the same job's worker
there. Nodes go by their names, which need not resolve: daemons find back by address.
"""

from __future__ import annotations

from headrace.documents.frameworks.place import Place

AGENT = "gang-rsh"
PROGRAMS = (AGENT, "mpirun", "mpiexec")
# Open MPI names shared memory by host and local rank, which nodes of one machine have in common.
OF_ONE_MACHINE = {"OMPI_MCA_btl": "self,tcp", "PMIX_MCA_gds": "hash"}
BIN = "bin"  # of the attempt's folder: before everything else in the worker's PATH


def environment(place: Place) -> dict[str, str]:
    """Where the nodes are listed, and who starts daemons there, in every launcher's words."""
    agent, hosts = f"{place.folder}/{BIN}/{AGENT}", place.hostfile_path
    told = {
        "HEADRACE_HOSTFILE": hosts,
        "HEADRACE_LAUNCH_ADDRESS": place.endpoints[0],
        "OMPI_ALLOW_RUN_AS_ROOT": "1",  # who may be root is for the node to say
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",  # a daemon's end is seen where it runs
        "OMPI_MCA_orte_default_hostfile": hosts,
        "PRTE_MCA_plm": "ssh",
        "PRTE_MCA_plm_ssh_agent": agent,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_prte_leave_session_attached": "1",
        "PRTE_MCA_prte_default_hostfile": hosts,
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": agent,
        "HYDRA_HOST_FILE": hosts,
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
        "I_MPI_HYDRA_HOST_FILE": hosts,
    }
    return told | OF_ONE_MACHINE if place.shares_a_machine else told

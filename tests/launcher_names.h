/* The variables that launchers set, for tests that must not be disturbed by one around them. */
#ifndef PLAIT_TESTS_LAUNCHER_NAMES_H
#define PLAIT_TESTS_LAUNCHER_NAMES_H

#include <stdlib.h>

static inline void launcher_clear(void)
{
    static const char *const names[] = {
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_MCA_ess_base_jobid",
        "PMIX_RANK",
        "PMIX_NAMESPACE",
        "PMI_RANK",
        "PMI_SIZE",
        "PMI_FD",
        "PMI_JOBID",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURM_LOCALID",
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_STEP_NUM_NODES",
        "SLURM_STEP_NODELIST",
        "PLAIT_LAUNCHER",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

#endif

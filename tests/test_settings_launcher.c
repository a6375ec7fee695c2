/* What launchers' variables say: ranks, sizes, and how the ranks meet. */
#include <stdio.h>
#include <string.h>

#include "base/settings.h"
#include "base/status.h"
#include "check.h"
#include "launcher_names.h"

enum { PAIRS_MOST = 24 };

static const struct variables_case {
    const char *name;
    const char *pairs[PAIRS_MOST]; /* name, value, ... */
    plait_status status;
    const char *sentence; /* a part of it, for failures */
    int rank, size;
    enum launcher launcher; /* LAUNCHER_AUTO: not asked, for a world of one */
    const char *address;    /* NULL: none */
} cases[] = {
#define OMPI "OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4"
#define OMPI_LOCAL "OMPI_COMM_WORLD_LOCAL_RANK", "2", "OMPI_COMM_WORLD_LOCAL_SIZE", "4"
#define HYDRA "PMI_RANK", "3", "PMI_SIZE", "8"
#define SRUN "SLURM_PROCID", "5", "SLURM_STEP_NUM_TASKS", "6", "SLURM_JOB_ID", "71", "SLURM_STEP_ID", "0"
#define ADDRESS "MASTER_ADDR", "h", "MASTER_PORT", "9"
    { "mpirun", { OMPI }, PLAIT_OK, NULL, 2, 4, LAUNCHER_PMIX, NULL },
    { "mpirun on one host has a way out",
      { OMPI, OMPI_LOCAL, "PMIX_NAMESPACE", "7" },
      PLAIT_OK,
      NULL,
      2,
      4,
      LAUNCHER_PMIX,
      "127.0.0.1" },
    { "mpirun of several hosts has none",
      { OMPI, "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "PMIX_NAMESPACE", "7" },
      PLAIT_OK,
      NULL,
      2,
      4,
      LAUNCHER_PMIX,
      NULL },
    { "mpirun with an address", { OMPI, ADDRESS }, PLAIT_OK, NULL, 2, 4, LAUNCHER_ENVIRONMENT, "h" },
    { "mpirun with half an address",
      { OMPI, "MASTER_ADDR", "h" },
      PLAIT_INVALID_SETTING,
      "set MASTER_PORT",
      0,
      0,
      0,
      NULL },
    { "mpirun of one",
      { "OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1" },
      PLAIT_OK,
      NULL,
      0,
      1,
      LAUNCHER_AUTO,
      NULL },
    { "mpirun with a bad rank",
      { "OMPI_COMM_WORLD_RANK", "x", "OMPI_COMM_WORLD_SIZE", "4" },
      PLAIT_INVALID_SETTING,
      "OMPI_COMM_WORLD_RANK is 'x'; good values: a number from 0 to OMPI_COMM_WORLD_SIZE - 1",
      0,
      0,
      0,
      NULL },
    { "mpirun with a rank past the end",
      { "OMPI_COMM_WORLD_RANK", "4", "OMPI_COMM_WORLD_SIZE", "4" },
      PLAIT_INVALID_SETTING,
      "ranks count from 0 to 3",
      0,
      0,
      0,
      NULL },
    { "mpirun through MPI", { OMPI, "PLAIT_LAUNCHER", "mpi" }, PLAIT_OK, NULL, 2, 4, LAUNCHER_MPI, NULL },
    { "mpirun inside srun", { OMPI, SRUN }, PLAIT_OK, NULL, 2, 4, LAUNCHER_PMIX, NULL },
    { "torchrun inside mpirun",
      { OMPI, "RANK", "1", "WORLD_SIZE", "2", ADDRESS },
      PLAIT_OK,
      NULL,
      1,
      2,
      LAUNCHER_ENVIRONMENT,
      "h" },
    { "mpirun with WORLD_SIZE, too",
      { OMPI, "WORLD_SIZE", "4", ADDRESS },
      PLAIT_OK,
      NULL,
      2,
      4,
      LAUNCHER_ENVIRONMENT,
      "h" },
    { "mpirun with another WORLD_SIZE",
      { OMPI, "WORLD_SIZE", "8" },
      PLAIT_INVALID_SETTING,
      "WORLD_SIZE is 8, and Open MPI's mpirun started 4 ranks",
      0,
      0,
      0,
      NULL },
    { "mpirun that is not asked",
      { OMPI, "PLAIT_LAUNCHER", "environment" },
      PLAIT_OK,
      NULL,
      0,
      1,
      LAUNCHER_ENVIRONMENT,
      NULL },
    { "ranks by hand inside mpirun",
      { OMPI, "RANK", "2", "WORLD_SIZE", "4" },
      PLAIT_OK,
      NULL,
      2,
      4,
      LAUNCHER_PMIX,
      NULL },
    { "another world inside mpirun needs an address",
      { OMPI, "RANK", "1", "WORLD_SIZE", "2" },
      PLAIT_INVALID_SETTING,
      "set MASTER_ADDR",
      0,
      0,
      0,
      NULL },

    { "mpiexec of hydra", { HYDRA }, PLAIT_OK, NULL, 3, 8, LAUNCHER_PMI, NULL },
    { "srun --mpi=pmi2",
      { HYDRA, "SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "8" },
      PLAIT_OK,
      NULL,
      3,
      8,
      LAUNCHER_PMI,
      NULL },
    { "hydra's rank alone", { "PMI_RANK", "3" }, PLAIT_OK, NULL, 0, 1, LAUNCHER_AUTO, NULL },

    { "srun on one node",
      { SRUN, "SLURM_STEP_NODELIST", "n1", "SLURM_STEP_NUM_NODES", "1" },
      PLAIT_OK,
      NULL,
      5,
      6,
      LAUNCHER_ENVIRONMENT,
      "127.0.0.1" },
    { "srun", { SRUN, "SLURM_STEP_NODELIST", "n1,n2" }, PLAIT_OK, NULL, 5, 6, LAUNCHER_ENVIRONMENT, "n1" },
    { "srun on a range",
      { SRUN, "SLURM_STEP_NODELIST", "gpu[007-009,12]" },
      PLAIT_OK,
      NULL,
      5,
      6,
      LAUNCHER_ENVIRONMENT,
      "gpu007" },
    { "srun on a list",
      { SRUN, "SLURM_STEP_NODELIST", "gpu[3,5-9]-ib,login" },
      PLAIT_OK,
      NULL,
      5,
      6,
      LAUNCHER_ENVIRONMENT,
      "gpu3-ib" },
    { "srun in two dimensions",
      { SRUN, "SLURM_STEP_NODELIST", "r[1-2]n[4-5]" },
      PLAIT_OK,
      NULL,
      5,
      6,
      LAUNCHER_ENVIRONMENT,
      "r1n4" },
    { "srun on a list without end",
      { SRUN, "SLURM_STEP_NODELIST", "r[1-2" },
      PLAIT_INVALID_SETTING,
      "SLURM_STEP_NODELIST is 'r[1-2'",
      0,
      0,
      0,
      NULL },
    { "srun on nothing",
      { SRUN, "SLURM_STEP_NODELIST", "," },
      PLAIT_INVALID_SETTING,
      "names no first host",
      0,
      0,
      0,
      NULL },
    { "srun without a list",
      { SRUN },
      PLAIT_INVALID_SETTING,
      "SLURM_STEP_NODELIST is not set",
      0,
      0,
      0,
      NULL },
    { "srun with an address", { SRUN, ADDRESS }, PLAIT_OK, NULL, 5, 6, LAUNCHER_ENVIRONMENT, "h" },
    { "srun --mpi=pmix has a way out",
      { SRUN, "SLURM_STEP_NODELIST", "n1,n2", "PMIX_NAMESPACE", "7" },
      PLAIT_OK,
      NULL,
      5,
      6,
      LAUNCHER_PMIX,
      "n1" },
    { "srun --mpi=pmix by the nodes",
      { SRUN, "SLURM_STEP_NODELIST", "n1,n2", "PMIX_NAMESPACE", "7", "PLAIT_LAUNCHER", "slurm" },
      PLAIT_OK,
      NULL,
      5,
      6,
      LAUNCHER_ENVIRONMENT,
      "n1" },
    { "a batch script is no rank",
      { "SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURM_JOB_ID", "71" },
      PLAIT_OK,
      NULL,
      0,
      1,
      LAUNCHER_AUTO,
      NULL },

    { "PMIx needs a size",
      { "PMIX_RANK", "3", "PMIX_NAMESPACE", "7" },
      PLAIT_INVALID_SETTING,
      "PMIX_RANK is 3 and no variable says how many ranks there are",
      0,
      0,
      0,
      NULL },
    { "PMIx with a size",
      { "PMIX_RANK", "3", "WORLD_SIZE", "4", "PMIX_NAMESPACE", "7" },
      PLAIT_OK,
      NULL,
      3,
      4,
      LAUNCHER_PMIX,
      NULL },
    { "a launcher that is not there",
      { "PLAIT_LAUNCHER", "slurm" },
      PLAIT_INVALID_SETTING,
      "SLURM_PROCID and SLURM_STEP_NUM_TASKS; start the program through it",
      0,
      0,
      0,
      NULL },
    { "a launcher that does not exist",
      { "PLAIT_LAUNCHER", "pbs" },
      PLAIT_INVALID_SETTING,
      "good values: auto, environment, pmix, pmi, slurm, mpi",
      0,
      0,
      0,
      NULL },
};

static void variables_are_understood(void **state)
{
    const struct variables_case *try = *state;
    struct settings settings;
    launcher_clear();
    for (int i = 0; i + 1 < PAIRS_MOST && try->pairs[i] != NULL; i += 2)
        setenv(try->pairs[i], try->pairs[i + 1], 1);
    plait_status status = settings_load(&settings, NULL);
    launcher_clear();
    if (try->sentence != NULL && strstr(failure_text(), try->sentence) == NULL)
        fail_msg("'%s' lacks '%s'", status == PLAIT_OK ? "" : failure_text(), try->sentence);
    if (try->status == PLAIT_OK && status != PLAIT_OK)
        fail_msg("%s", failure_text());
    assert_int_equal(status, try->status);
    if (status != PLAIT_OK)
        return;
    assert_int_equal(settings.rank, try->rank);
    assert_int_equal(settings.size, try->size);
    assert_int_equal(settings.launcher, try->launcher);
    if (try->address == NULL)
        assert_null(settings.address);
    else
        assert_string_equal(settings.address, try->address);
    if (try->address != NULL)
        assert_in_range(settings.port, 1, 65535);
}

/* A caller that gives rank and size itself can still meet the others through the launcher, if it is the same world. */
static void options_may_name_the_same_place(void **state)
{
    (void)state;
    struct settings settings;
    plait_world_options same = { .rank = 2, .size = 4 }, other = { .rank = 1, .size = 2 };
    launcher_clear();
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    assert_int_equal(settings_load(&settings, &same), PLAIT_OK);
    assert_int_equal(settings.launcher, LAUNCHER_PMIX);
    assert_int_equal(settings_load(&settings, &other), PLAIT_INVALID_SETTING);
    assert_non_null(strstr(failure_text(), "set MASTER_ADDR"));
    launcher_clear();
}

/* All ranks of a job, and of no other, come to the same port. */
static void jobs_have_ports(void **state)
{
    (void)state;
    struct settings one, same, other;
    static const char *const srun[] = { "SLURM_STEP_NUM_TASKS", "6", "SLURM_STEP_NODELIST", "n1,n2",
                                        "SLURM_STEP_ID",        "0", "SLURM_JOB_ID",        "71",
                                        "SLURM_PROCID",         "0" };
    launcher_clear();
    for (size_t i = 0; i < LENGTH(srun); i += 2)
        setenv(srun[i], srun[i + 1], 1);
    assert_int_equal(settings_load(&one, NULL), PLAIT_OK);
    setenv("SLURM_PROCID", "4", 1);
    assert_int_equal(settings_load(&same, NULL), PLAIT_OK);
    setenv("SLURM_STEP_ID", "1", 1);
    assert_int_equal(settings_load(&other, NULL), PLAIT_OK);
    launcher_clear();
    assert_int_equal(one.port, same.port);
    assert_string_equal(one.job, same.job);
    assert_int_not_equal(one.port, other.port);
    assert_string_not_equal(one.job, other.job);
    assert_in_range(one.port, 10240, 32767 - 15);
}

int main(void)
{
    struct CMUnitTest tests[LENGTH(cases) + 2];
    for (size_t i = 0; i < LENGTH(cases); i++)
        tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                        .test_func = variables_are_understood,
                                        .initial_state = (void *)(uintptr_t)&cases[i] };
    tests[LENGTH(cases)] = (struct CMUnitTest)cmocka_unit_test(options_may_name_the_same_place);
    tests[LENGTH(cases) + 1] = (struct CMUnitTest)cmocka_unit_test(jobs_have_ports);
    return check_run("settings_launcher", tests, LENGTH(tests));
}

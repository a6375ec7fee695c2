/* What a launcher's environment says: who this rank is, and how the ranks can meet that have been given no
 * address. Only variables are read here; src/bootstrap/launcher*.c talks to the launcher. */
#include "base/settings.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"

/* Whose variables tell a rank its place. What a user or torchrun sets goes before the launcher around it, and
 * mpirun before the srun that it may run in. Slurm's are those of a step: the script of a batch job has
 * SLURM_PROCID and SLURM_NTASKS, too, and is no rank of anything. */
static const struct source {
    const char *who;
    const char *rank, *size, *local_rank, *local_size;
    enum launcher launcher;
} sources[] = {
    { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", LAUNCHER_ENVIRONMENT },
    { "Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", LAUNCHER_PMIX },
    { "mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", LAUNCHER_PMI },
    { "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, LAUNCHER_SLURM },
    { "PMIx", "PMIX_RANK", "WORLD_SIZE", NULL, NULL, LAUNCHER_PMIX },
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

/* Whether PLAIT_LAUNCHER lets a source be asked: the MPI module and PMIx serve ranks of several launchers. */
static bool allowed(const struct source *source, enum launcher asked)
{
    if (asked == LAUNCHER_AUTO || asked == source->launcher)
        return true;
    return (asked == LAUNCHER_MPI || asked == LAUNCHER_PMIX) && source->launcher != LAUNCHER_ENVIRONMENT;
}

static bool is_set(const char *name)
{
    return name != NULL && settings_variable(name) != NULL;
}

static const struct source *find_source(enum launcher asked, int first)
{
    for (int i = first; i < SOURCES; i++)
        if (allowed(&sources[i], asked) && is_set(sources[i].rank) && is_set(sources[i].size))
            return &sources[i];
    return NULL;
}

/* ---------------------------------------------------------------------- places */

static plait_status read_place(const struct source *source, int *rank, int *size)
{
    char good[96];
    bool set;
    plait_status status =
        settings_read_number(source->size, 1, INT_MAX, "the number of ranks, from 1", size, &set);
    snprintf(good, sizeof good, "a number from 0 to %s - 1", source->size);
    if (status == PLAIT_OK)
        status = settings_read_number(source->rank, 0, INT_MAX, good, rank, &set);
    if (status == PLAIT_OK && *rank >= *size)
        status = failure(PLAIT_INVALID_SETTING, "%s is %d and %s is %d; ranks count from 0 to %d",
                         source->rank, *rank, source->size, *size, *size - 1);
    return status;
}

/* A hint of the launcher's; either may be missing. */
static plait_status read_local_place(const struct source *source, struct settings *settings)
{
    char good[96];
    bool has_rank = false, has_size = false;
    plait_status status = PLAIT_OK;
    snprintf(good, sizeof good, "a number from 0 to %s - 1",
             source->local_size != NULL ? source->local_size : source->size);
    if (source->local_rank != NULL)
        status = settings_read_number(source->local_rank, 0, INT_MAX, good, &settings->local_rank, &has_rank);
    if (status == PLAIT_OK && source->local_size != NULL)
        status =
            settings_read_number(source->local_size, 1, INT_MAX, "the number of ranks on this host, from 1",
                                 &settings->local_size, &has_size);
    if (status == PLAIT_OK && has_rank && has_size && settings->local_rank >= settings->local_size)
        status = failure(PLAIT_INVALID_SETTING, "%s is %d and %s is %d; local ranks count from 0 to %d",
                         source->local_rank, settings->local_rank, source->local_size, settings->local_size,
                         settings->local_size - 1);
    return status;
}

/* No launcher told both numbers. A world of one, unless one number stands alone. */
static plait_status place_without_source(struct settings *settings)
{
    bool has_rank, has_size, has_pmix = false;
    int pmix_rank = 0;
    settings->size = 1;
    plait_status status = settings_read_number("WORLD_SIZE", 1, INT_MAX, "the number of ranks, from 1",
                                               &settings->size, &has_size);
    if (status == PLAIT_OK)
        status = settings_read_number("RANK", 0, INT_MAX, "a number from 0 to WORLD_SIZE - 1",
                                      &settings->rank, &has_rank);
    if (status == PLAIT_OK)
        status = settings_read_number("PMIX_RANK", 0, INT_MAX, "a number from 0", &pmix_rank, &has_pmix);
    if (status != PLAIT_OK)
        return status;
    if (has_rank && !has_size)
        return failure(PLAIT_INVALID_SETTING, "RANK is %d but WORLD_SIZE is not set; a launcher sets both",
                       settings->rank);
    if (has_size && !has_rank && settings->size > 1)
        return failure(PLAIT_INVALID_SETTING, "WORLD_SIZE is %d but RANK is not set; a launcher sets both",
                       settings->size);
    if (has_pmix && !has_size && settings->launcher == LAUNCHER_AUTO)
        return failure(
            PLAIT_INVALID_SETTING,
            "PMIX_RANK is %d and no variable says how many ranks there are; set WORLD_SIZE to that, "
            "or unset PMIX_RANK for a world of one",
            pmix_rank);
    return read_local_place(&sources[0], settings);
}

/* PLAIT_LAUNCHER asks for one whose variables are not there. */
static plait_status place_not_told(enum launcher asked)
{
    static const char *const names[] = { "auto", "environment", "pmix", "pmi", "slurm", "mpi" };
    char wanted[320];
    size_t used = 0;
    for (int i = 0; i < SOURCES; i++)
        if (allowed(&sources[i], asked))
            used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s%s and %s",
                                     used > 0 ? ", or " : "", sources[i].rank, sources[i].size);
    return failure(
        PLAIT_INVALID_SETTING,
        "PLAIT_LAUNCHER is %s, and it has not set what tells a rank its place: %s; start the program "
        "through it, or unset PLAIT_LAUNCHER",
        names[asked], wanted);
}

plait_status launcher_find_place(struct settings *settings)
{
    const struct source *source = find_source(settings->launcher, 0);
    int world_size;
    bool has_world_size;
    if (source == NULL && settings->launcher > LAUNCHER_ENVIRONMENT)
        return place_not_told(settings->launcher);
    if (source == NULL)
        return place_without_source(settings);
    plait_status status = read_place(source, &settings->rank, &settings->size);
    if (status == PLAIT_OK)
        status = read_local_place(source, settings);
    if (status == PLAIT_OK)
        status = settings_read_number("WORLD_SIZE", 1, INT_MAX, "the number of ranks, from 1", &world_size,
                                      &has_world_size);
    if (status == PLAIT_OK && has_world_size && world_size != settings->size)
        status =
            failure(PLAIT_INVALID_SETTING,
                    "WORLD_SIZE is %d, and %s started %d ranks (%s); start as many as WORLD_SIZE says, unset "
                    "it, or set RANK, too",
                    world_size, source->who, settings->size, source->size);
    if (status == PLAIT_OK && source != sources)
        log_info("rank %d of %d, by %s's %s and %s", settings->rank, settings->size, source->who,
                 source->rank, source->size);
    return status;
}

/* -------------------------------------------------------------------- meetings */

/* The first name of a list such as "node[03-05,9],login": where srun starts task 0. */
static bool first_host(const char *list, char *name, size_t size)
{
    size_t used = 0;
    bool inside = false, passing = false; /* in brackets, of which the first number counts */
    for (; *list != '\0' && (inside || *list != ','); list++) {
        if (*list == '[' && !inside) {
            inside = true;
        } else if (*list == ']' && inside) {
            inside = passing = false;
        } else if (inside && (*list == '-' || *list == ',')) {
            passing = true;
        } else if (!passing) {
            if (used + 1 >= size)
                return false;
            name[used++] = *list;
        }
    }
    name[used] = '\0';
    return used > 0 && !inside;
}

/* Sixteen ports in a row that belong to a job more or less alone, below those of outgoing connections. */
static int port_of_job(const char *job)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *job != '\0'; job++)
        hash = (hash ^ (unsigned char)*job) * 16777619u;
    return 10240 + (int)(hash % 1300) * 16;
}

static plait_status meet_by_nodes(struct settings *settings)
{
    const char *job = settings_variable("SLURM_JOB_ID"), *step = settings_variable("SLURM_STEP_ID");
    const char *list = settings_variable("SLURM_STEP_NODELIST"),
               *nodes = settings_variable("SLURM_STEP_NUM_NODES");
    if (job == NULL || step == NULL || list == NULL)
        return failure(
            PLAIT_INVALID_SETTING,
            "rank %d of %d was started by srun, and %s is not set, which says where rank 0 is; set "
            "MASTER_ADDR and MASTER_PORT",
            settings->rank, settings->size,
            job == NULL    ? "SLURM_JOB_ID"
            : step == NULL ? "SLURM_STEP_ID"
                           : "SLURM_STEP_NODELIST");
    snprintf(settings->job, sizeof settings->job, "slurm %.100s.%.100s", job, step);
    if (nodes != NULL && strcmp(nodes, "1") == 0)
        snprintf(settings->launch_address, sizeof settings->launch_address, "127.0.0.1");
    else if (!first_host(list, settings->launch_address, sizeof settings->launch_address))
        return failure(
            PLAIT_INVALID_SETTING,
            "SLURM_STEP_NODELIST is '%.100s', which names no first host; set MASTER_ADDR and MASTER_PORT",
            list);
    settings->address = settings->launch_address;
    settings->port = port_of_job(settings->job);
    log_info("the ranks can meet at %s, the first of SLURM_STEP_NODELIST, port %d of job %s.%s",
             settings->address, settings->port, job, step);
    return PLAIT_OK;
}

/* Ranks that are all on this host can meet without their launcher's help, if it gave the job a name. */
static void note_job(struct settings *settings)
{
    static const char *const names[] = { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID" };
    for (size_t i = 0; i < sizeof names / sizeof names[0] && settings->job[0] == '\0'; i++)
        if (is_set(names[i]))
            snprintf(settings->job, sizeof settings->job, "%s %.200s", names[i], settings_variable(names[i]));
    if (settings->job[0] == '\0' || settings->local_size != settings->size)
        return;
    snprintf(settings->launch_address, sizeof settings->launch_address, "127.0.0.1");
    settings->address = settings->launch_address;
    settings->port = port_of_job(settings->job);
}

plait_status launcher_find_meeting(struct settings *settings)
{
    enum launcher asked = settings->launcher;
    const struct source *source =
        find_source(asked, 1); /* the first one's only word on this is MASTER_ADDR */
    int rank, size;
    if (source == NULL) {
        settings->launcher = LAUNCHER_AUTO;
        return PLAIT_OK;
    }
    plait_status status = read_place(source, &rank, &size);
    if (status != PLAIT_OK)
        return status;
    if (rank != settings->rank || size != settings->size) {
        settings->launcher = LAUNCHER_AUTO; /* the caller's world is another one than the launcher's */
        return PLAIT_OK;
    }
    settings->launcher = asked != LAUNCHER_AUTO ? asked : source->launcher;
    if (source->launcher != LAUNCHER_SLURM) {
        note_job(settings);
        return PLAIT_OK;
    }
    status = meet_by_nodes(settings);
    if (settings->launcher == LAUNCHER_SLURM)
        settings->launcher =
            asked == LAUNCHER_AUTO && is_set("PMIX_NAMESPACE") ? LAUNCHER_PMIX : LAUNCHER_ENVIRONMENT;
    return status;
}

/* Settings: what the caller's options and the environment say, merged and
 * checked once when a world is created. PLAIT_* variables override options;
 * what neither sets is zero's default. One table names every PLAIT_* variable
 * and drives parsing, the warning about unknown names, and docs/settings.md. */
#ifndef PLAIT_BASE_SETTINGS_H
#define PLAIT_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plait.h"

/* How payload is written to shared memory: by the probed line cost, or as told. */
enum stores { STORES_AUTO, STORES_ORDINARY, STORES_STREAMED };

/* Whether ranks copy out of each other's private memory: where it is no slower, or as told. */
enum pulls { PULLS_AUTO, PULLS_ALWAYS, PULLS_NEVER };

/* How ranks find each other that have no store, file or threads: by rank 0's address, or by what their
 * launcher offers. Slurm's node list gives an address, so that is LAUNCHER_ENVIRONMENT once it is loaded. */
enum launcher {
    LAUNCHER_AUTO,
    LAUNCHER_ENVIRONMENT,
    LAUNCHER_PMIX,
    LAUNCHER_PMI,
    LAUNCHER_SLURM,
    LAUNCHER_MPI
};

enum { LAUNCH_TEXT_BYTES = 256 };

/* Not to be copied: strings may point into it. Others point into the options, the environment or static storage: copy what
 * must outlive plait_world_create(). */
struct settings {
    int rank, size;             /* 0 <= rank < size */
    int local_rank, local_size; /* as the launcher says; -1 if it does not */

    /* The way to the others: the first that is not NULL; all NULL: alone (size 1). */
    plait_thread_group *threads;
    const plait_store *store;
    const char *file;
    const char *address; /* with port: rank 0 listens there */
    int port;
    enum launcher launcher; /* never LAUNCHER_AUTO or LAUNCHER_SLURM once it is loaded */
    bool launcher_asked;    /* PLAIT_LAUNCHER names it; else the address, if any, is the way out */
    char launch_address[LAUNCH_TEXT_BYTES]; /* where the address is from, if from the launcher */
    char job[LAUNCH_TEXT_BYTES];            /* the launcher's name for the job; "" if it has none */

    const void *job_key; /* NULL: none was given */
    size_t job_key_size;

    int64_t timeout_ms;       /* < 0: none */
    int64_t start_timeout_ms; /* < 0: none */
    const char *transport;      /* a name from the table; "auto" by default, never NULL */
    const char *ofi_provider;   /* libfabric's name for it; NULL: Plait chooses */
    const char *interface;      /* towards other hosts: its name or an address; NULL: Plait chooses */
    double network_latency_ns;  /* of a message between hosts; 0: to be measured */
    double network_ns_per_byte; /* likewise */
    const char *plan;           /* as transport */
    const char *kernels;        /* likewise */
    plait_log_level log_level;
    size_t staging_size; /* bytes; 0: the transport decides */
    enum stores stores;
    enum pulls pulls;
    bool prove; /* prove each plan before it runs; on by default in dev builds */

    plait_fault_handler on_fault;
    void *fault_context;
};

/* A row of the table, as people read it. */
struct setting_description {
    const char *name;     /* "PLAIT_TRANSPORT" */
    const char *option;   /* the field of plait_world_options it overrides, or "" */
    const char *standard; /* the value when nothing is set */
    const char *help;
    char good[320]; /* "auto, inproc, shm" */
};

/* Fills `settings` from `options` (NULL: all zero) and the environment, sets
 * the log's level, and warns, once a process, about PLAIT_* names that mean nothing.
 * PLAIT_INVALID_ARGUMENT for options that can't be, PLAIT_INVALID_SETTING for
 * a value that is none of the good ones, PLAIT_UNSUPPORTED for a later version's options. */
plait_status settings_load(struct settings *settings, const plait_world_options *options);

/* Row `index` of the table; false past its end. */
bool settings_describe(size_t index, struct setting_description *description);

/* The setting whose name is nearest to `name`, or NULL when `name` is one itself. */
const char *settings_nearest(const char *name);

/* The settings' own: what the launcher says (settings_launch.c). */
plait_status settings_load_launch(struct settings *settings, const plait_world_options *options);

/* The settings' own, of settings_launcher.c: finds the launcher that started this process, and from it the
 * rank and the size (0 if there is none). */
plait_status launcher_find_place(struct settings *settings);
/* Settles how the ranks meet, where neither the caller nor MASTER_ADDR and MASTER_PORT say it; leaves
 * LAUNCHER_AUTO if no launcher helps. */
plait_status launcher_find_meeting(struct settings *settings);

/* The settings' own: the number in variable `name`, if it is set; *set says whether it was. */
plait_status settings_read_number(const char *name, int64_t least, int64_t most, const char *good,
                                  int *number, bool *set);

/* The settings' own: a whole decimal number, without blanks or anything else around it. */
bool settings_parse_number(const char *text, int64_t least, int64_t most, int64_t *value);

/* The settings' own: a variable's value; NULL when it is unset or empty. */
const char *settings_variable(const char *name);

#endif

#include "base/settings.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"

#ifndef PLAIT_PROVE
#define PLAIT_PROVE 0
#endif

#define PREFIX "PLAIT_"

extern char **environ;

enum {
    NAMES_MAX = 20,
    OPTIONS_SIZE_MAX = 4096, /* a struct_size above this was never set */
};
static const int64_t staging_least = 64 << 10, staging_most = 1 << 30;
static const int64_t timeout_most_ms = INT64_C(1000) * 86400 * 365;

struct setting {
    const char *name;
    const char *option;
    const char *standard;
    const char *help;
    /* Writes a good value to `field`; false for a bad one. */
    bool (*parse)(const struct setting *setting, const char *text, void *field);
    size_t field;                 /* its offset in struct settings */
    const char *names[NAMES_MAX]; /* the good values, NULL after the last; none: `good` describes them */
    const char *good;
};

static bool find_name(const struct setting *setting, const char *text, int *index)
{
    for (int i = 0; i < NAMES_MAX && setting->names[i]; i++) {
        if (strcmp(setting->names[i], text) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

static bool parse_name(const struct setting *setting, const char *text, void *field)
{
    int index;
    if (!find_name(setting, text, &index))
        return false;
    *(const char **)field = setting->names[index];
    return true;
}

static bool parse_log_level(const struct setting *setting, const char *text, void *field)
{
    int index;
    if (!find_name(setting, text, &index))
        return false;
    *(plait_log_level *)field = (plait_log_level)(PLAIT_LOG_ERROR + index);
    return true;
}

static bool parse_stores(const struct setting *setting, const char *text, void *field)
{
    int index;
    if (!find_name(setting, text, &index))
        return false;
    *(enum stores *)field = (enum stores)(STORES_AUTO + index);
    return true;
}

static bool parse_pulls(const struct setting *setting, const char *text, void *field)
{
    int index;
    if (!find_name(setting, text, &index))
        return false;
    *(enum pulls *)field = (enum pulls)(PULLS_AUTO + index);
    return true;
}

static bool parse_launcher(const struct setting *setting, const char *text, void *field)
{
    int index;
    if (!find_name(setting, text, &index))
        return false;
    *(enum launcher *)field = (enum launcher)(LAUNCHER_AUTO + index);
    return true;
}

static bool parse_prove(const struct setting *setting, const char *text, void *field)
{
    int index;
    if (!find_name(setting, text, &index))
        return false;
    if (index > 0) /* the first is "auto": leave what the build says */
        *(bool *)field = index == 1;
    return true;
}

static bool parse_text(const struct setting *setting, const char *text, void *field)
{
    (void)setting;
    *(const char **)field = text;
    return true;
}

static bool parse_timeout(const struct setting *setting, const char *text, void *field)
{
    (void)setting;
    int64_t value;
    if (!settings_parse_number(text, -1, timeout_most_ms, &value) || value == 0)
        return false;
    *(int64_t *)field = value;
    return true;
}

static const int64_t latency_most_us = 1000000, speed_most_mbits = 10000000;

static bool parse_latency(const struct setting *setting, const char *text, void *field)
{
    (void)setting;
    int64_t us;
    if (!settings_parse_number(text, 1, latency_most_us, &us))
        return false;
    *(double *)field = (double)us * 1e3;
    return true;
}

static bool parse_speed(const struct setting *setting, const char *text, void *field)
{
    (void)setting;
    int64_t mbits;
    if (!settings_parse_number(text, 1, speed_most_mbits, &mbits))
        return false;
    *(double *)field = 8e3 / (double)mbits;
    return true;
}

static bool parse_staging_size(const struct setting *setting, const char *text, void *field)
{
    (void)setting;
    size_t digits = strspn(text, "0123456789");
    char number[16];
    if (digits == 0 || digits >= sizeof number)
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';

    static const char suffixes[] = "KMG";
    int shift = 0;
    if (text[digits] != '\0') {
        const char *suffix = strchr(suffixes, text[digits] & ~0x20); /* k is K */
        if (!suffix || *suffix == '\0' || text[digits + 1] != '\0')
            return false;
        shift = 10 * (int)(suffix - suffixes + 1);
    }

    int64_t value;
    if (!settings_parse_number(number, 0, staging_most >> shift, &value) || value << shift < staging_least)
        return false;
    *(size_t *)field = (size_t)(value << shift);
    return true;
}

#define FIELD(member) offsetof(struct settings, member)
#define TIMEOUT_GOOD "milliseconds from 1 to 31536000000, or -1 for no limit"

/* A row is what people read, then how it is read. */
/* clang-format off */
static const struct setting table[] = {
    { "PLAIT_TIMEOUT_MS", "timeout_ms", "600000", "Deadline of an operation.",
      parse_timeout, FIELD(timeout_ms), { NULL }, TIMEOUT_GOOD },
    { "PLAIT_START_TIMEOUT_MS", "start_timeout_ms", "120000", "Deadline for all ranks to have come.",
      parse_timeout, FIELD(start_timeout_ms), { NULL }, TIMEOUT_GOOD },
    { "PLAIT_TRANSPORT", "transport", "auto", "What moves the bytes between ranks.",
      parse_name, FIELD(transport), { "auto", "inproc", "shm", "ofi" }, NULL },
    { "PLAIT_OFI_PROVIDER", "", "the best", "The provider of libfabric that carries messages between hosts.",
      parse_text, FIELD(ofi_provider), { NULL }, "a name that fi_info lists, such as tcp;ofi_rxm" },
    { "PLAIT_INTERFACE", "", "by route", "The network interface that other hosts reach this one by; the first that is here.",
      parse_text, FIELD(interface), { NULL }, "names (eth0, ib*), addresses, subnets (10.0.0.0/8), ! before what to avoid; with commas between" },
    { "PLAIT_NETWORK_LATENCY_US", "", "as measured", "What a message between hosts takes; plans are chosen by it. Rank 0's counts.",
      parse_latency, FIELD(network_latency_ns), { NULL }, "microseconds from 1 to 1000000" },
    { "PLAIT_NETWORK_MBITS", "", "as measured", "What passes between two hosts each way; plans are chosen by it. Rank 0's counts.",
      parse_speed, FIELD(network_ns_per_byte), { NULL }, "Mbit/s from 1 to 10000000" },
    { "PLAIT_PLAN", "plan", "auto", "The algorithm of collectives; where it does not fit, Plait chooses. See \"The same bits\".",
      parse_name, FIELD(plan),
      { "auto", "deterministic", "direct", "direct-one-shot", "direct-two-phase", "direct-running", "doubling", "halving",
        "ring", "tree", "chain", "pairwise", "hierarchy", "hierarchy-doubling", "hierarchy-halving", "hierarchy-ring",
        "hierarchy-tree", "hierarchy-chain", "in-place" },
      NULL },
    { "PLAIT_LOG", "", "warn", "What is logged: this and everything graver.",
      parse_log_level, FIELD(log_level), { "error", "warn", "info", "debug" }, NULL },
    { "PLAIT_KERNELS", "", "auto", "The instructions that reductions use.",
      parse_name, FIELD(kernels), { "auto", "scalar", "avx2", "avx512", "neon" }, NULL },
    { "PLAIT_JOB_KEY", "job_key", "", "A secret that all ranks share and strangers do not.",
      parse_text, FIELD(job_key), { NULL }, "any text; 16 random characters or more" },
    { "PLAIT_FILE", "file", "", "A file through which the ranks find each other.",
      parse_text, FIELD(file), { NULL }, "a path that all ranks can write" },
    { "PLAIT_LAUNCHER", "", "auto", "What started the ranks: its variables say who they are, and through it they meet.",
      parse_launcher, FIELD(launcher), { "auto", "environment", "pmix", "pmi", "slurm", "mpi" }, NULL },
    { "PLAIT_STAGING_SIZE", "", "by cache size",
      "Shared memory of each rank that payload is staged through; 512K at most in split communicators.",
      parse_staging_size, FIELD(staging_size), { NULL }, "bytes from 64K to 1G; K, M and G are powers of 1024" },
    { "PLAIT_STORES", "", "auto", "How payload is written to shared memory.",
      parse_stores, FIELD(stores), { "auto", "ordinary", "streamed" }, NULL },
    { "PLAIT_PULLS", "", "auto", "Whether ranks copy out of each other's private memory; on all ranks, or on none.",
      parse_pulls, FIELD(pulls), { "auto", "always", "never" }, NULL },
    { "PLAIT_PROVE", "", "auto", "Prove each plan before it runs: slow, for debugging. On in dev builds.",
      parse_prove, FIELD(prove), { "auto", "on", "off" }, NULL },
};
/* clang-format on */

enum { SETTINGS = sizeof table / sizeof table[0] };

static void describe_good(const struct setting *setting, char *good, size_t size)
{
    if (setting->good) {
        snprintf(good, size, "%s", setting->good);
        return;
    }
    size_t used = 0;
    good[0] = '\0';
    for (int i = 0; i < NAMES_MAX && setting->names[i] && used < size; i++)
        used += (size_t)snprintf(good + used, size - used, "%s%s", i == 0 ? "" : ", ", setting->names[i]);
}

bool settings_describe(size_t index, struct setting_description *description)
{
    if (index >= SETTINGS)
        return false;
    const struct setting *setting = &table[index];
    description->name = setting->name;
    description->option = setting->option;
    description->standard = setting->standard;
    description->help = setting->help;
    describe_good(setting, description->good, sizeof description->good);
    return true;
}

bool settings_parse_number(const char *text, int64_t least, int64_t most, int64_t *value)
{
    const char *digits = text + (text[0] == '-');
    if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0')
        return false;
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno != 0 || number < least || number > most)
        return false;
    *value = number;
    return true;
}

const char *settings_variable(const char *name)
{
    const char *text = getenv(name);
    return text && text[0] != '\0' ? text : NULL;
}

/* Optimal string alignment distance: insertions, deletions, replacements and
 * swapped neighbours count one each. Names longer than the rows are cut. */
static int name_distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int rows[3][LONGEST + 1]; /* the one before the last, the last, this one */
    int length_a = (int)strnlen(a, LONGEST), length_b = (int)strnlen(b, LONGEST);
    for (int j = 0; j <= length_b; j++)
        rows[0][j] = j;
    for (int i = 1; i <= length_a; i++) {
        int *row = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= length_b; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[length_a % 3][length_b];
}

const char *settings_nearest(const char *name)
{
    const char *nearest = table[0].name;
    int least = 1000;
    for (size_t i = 0; i < SETTINGS; i++) {
        if (strcmp(name, table[i].name) == 0)
            return NULL;
        int distance = name_distance(name, table[i].name);
        if (distance > 1 && strncmp(name, table[i].name, strlen(name)) == 0)
            distance = 1; /* half a name is as good as a slip: PLAIT_STAGING */
        if (distance < least) {
            least = distance;
            nearest = table[i].name;
        }
    }
    return nearest;
}

static void warn_of_unknown_names(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&done))
        return;
    for (char **entry = environ; entry && *entry; entry++) {
        char name[64];
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, PREFIX, strlen(PREFIX)) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length, *entry);
        /* Of builds: where the library is, and whether python's module is made on first use. */
        if (strcmp(name, "PLAIT_ROOT") == 0 || strcmp(name, "PLAIT_BUILD") == 0)
            continue;
        const char *nearest = settings_nearest(name);
        if (nearest)
            log_warn("%s is not a setting of Plait and has no effect; did you mean %s?", name, nearest);
    }
}

/* One value from `where`; NULL text leaves the field as it is. */
static plait_status load_text(struct settings *settings, const struct setting *setting, const char *where,
                              const char *text)
{
    char good[sizeof((struct setting_description *)0)->good];
    if (!text || setting->parse(setting, text, (char *)settings + setting->field))
        return PLAIT_OK;
    describe_good(setting, good, sizeof good);
    return failure(PLAIT_INVALID_SETTING, "%s is '%.64s'; good values: %s", where, text, good);
}

static const struct setting *find_setting(const char *name)
{
    const struct setting *setting = table;
    while (strcmp(setting->name, name) != 0)
        setting++;
    return setting;
}

static plait_status load_environment(struct settings *settings)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        plait_status status = load_text(settings, &table[i], table[i].name, settings_variable(table[i].name));
        if (status != PLAIT_OK)
            return status;
    }
    if (settings_variable("PLAIT_JOB_KEY"))
        settings->job_key_size = strlen(settings->job_key);
    return PLAIT_OK;
}

static plait_status load_options(struct settings *settings, const plait_world_options *options)
{
    plait_status status =
        load_text(settings, find_setting("PLAIT_TRANSPORT"), "options.transport", options->transport);
    if (status == PLAIT_OK)
        status = load_text(settings, find_setting("PLAIT_PLAN"), "options.plan", options->plan);
    if (status != PLAIT_OK)
        return status;

    if (options->timeout_ms != 0)
        settings->timeout_ms = options->timeout_ms;
    if (options->start_timeout_ms != 0)
        settings->start_timeout_ms = options->start_timeout_ms;
    if (options->job_key && options->job_key_size == 0)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.job_key is set and options.job_key_size is 0; give its bytes, too");
    if (!options->job_key && options->job_key_size != 0)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.job_key_size is %zu and options.job_key is NULL; give both or neither",
                       options->job_key_size);
    if (options->file && options->file[0] == '\0')
        return failure(PLAIT_INVALID_ARGUMENT, "options.file is an empty path; leave it NULL for none");
    settings->threads = options->threads;
    settings->store = options->store;
    settings->file = options->file;
    settings->job_key = options->job_key;
    settings->job_key_size = options->job_key_size;
    settings->on_fault = options->on_fault;
    settings->fault_context = options->fault_context;
    return PLAIT_OK;
}

/* The caller's options in this version's shape: fields that an older caller
 * does not have are zero, fields that this version does not have must be. */
static plait_status take_options(const plait_world_options *given, plait_world_options *options)
{
    memset(options, 0, sizeof *options);
    size_t size = given ? given->struct_size : 0;
    if (given && size == 0)
        size = sizeof *options; /* version 1's, the only one so far */
    if (size > OPTIONS_SIZE_MAX || (given && size < offsetof(plait_world_options, threads)))
        return failure(PLAIT_INVALID_ARGUMENT,
                       "options.struct_size is %zu; set it to sizeof(plait_world_options), %zu here", size,
                       sizeof *options);
    for (size_t i = sizeof *options; i < size; i++) {
        if (((const unsigned char *)given)[i] != 0)
            return failure(PLAIT_UNSUPPORTED,
                           "options set something at byte %zu, which plait %d.%d does not know (its options "
                           "have %zu bytes): use a newer library or leave it zero",
                           i, PLAIT_VERSION_MAJOR, PLAIT_VERSION_MINOR, sizeof *options);
    }
    if (given)
        memcpy(options, given, size < sizeof *options ? size : sizeof *options);
    return PLAIT_OK;
}

plait_status settings_load(struct settings *settings, const plait_world_options *given)
{
    *settings = (struct settings){
        .local_rank = -1,
        .local_size = -1,
        .timeout_ms = 600000,
        .start_timeout_ms = 120000,
        .transport = "auto",
        .plan = "auto",
        .kernels = "auto",
        .log_level = PLAIT_LOG_WARN,
        .prove = PLAIT_PROVE,
    };
    plait_world_options options;
    plait_status status = take_options(given, &options);
    if (status == PLAIT_OK)
        status = load_options(settings, &options);
    if (status == PLAIT_OK)
        status = load_environment(settings);
    if (status != PLAIT_OK)
        return status;

    log_set_level(settings->log_level);
    warn_of_unknown_names();
    return settings_load_launch(settings, &options);
}

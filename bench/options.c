#include "options.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

#define COLLECTIVES                                                                                          \
    "all_reduce, reduce, broadcast, all_gather, reduce_scatter, gather, scatter, all_to_all, all_gather_v, " \
    "reduce_scatter_v, gather_v, scatter_v, all_to_all_v, barrier, sendrecv, all"
#define TYPES                                                                                                \
    "i8, u8, i16, u16, i32, u32, i64, u64, bool, f8e4m3, f8e5m2, f16, bf16, f32, f64, c64, c128, bytes, "    \
    "f32_i32, f64_i64, i32_i32, i64_i64, all"
#define OPS                                                                                                  \
    "sum, product, min, max, average, bit_and, bit_or, bit_xor, and, or, xor, min_location, max_location, "  \
    "all"
#define SIZES "bytes such as 8, 64K, 1M or 2G (powers of 1024)"

enum { /* options without a letter */
       OPTION_RANKS = 256,
       OPTION_THREADS,
       OPTION_SEED,
       OPTION_LAUNCHED,
       OPTION_BIND,
       OPTION_COLD,
       OPTION_EXPLAIN,
       OPTION_MEMORY,
};

enum { GROUP_WHAT = 1, GROUP_SIZES, GROUP_HOW, GROUP_RANKS, GROUP_OUTPUT };

/* clang-format off */
static const struct argp_option table[] = {
    { NULL, 0, NULL, 0, "What is measured (lists are separated by commas):", GROUP_WHAT },
    { "collective", 'C', "NAME", 0, COLLECTIVES " (default all_reduce)", GROUP_WHAT },
    { "datatype", 'd', "TYPE", 0, TYPES " (default f32)", GROUP_WHAT },
    { "op", 'o', "OP", 0, OPS " (default sum)", GROUP_WHAT },
    { "root", 'r', "RANK", 0,
      "a rank, \"all\" (a row each) or \"rotate\" (another one with each operation, so that no root "
      "runs ahead of the others) (default 0)", GROUP_WHAT },

    { NULL, 0, NULL, 0,
      "Sizes, of the bigger buffer of a rank (K, M and G are powers of 1024):", GROUP_SIZES },
    { "minbytes", 'b', "BYTES", 0, "first size (default 8)", GROUP_SIZES },
    { "maxbytes", 'e', "BYTES", 0, "last size (default 64M)", GROUP_SIZES },
    { "stepfactor", 'f', "N", 0,
      "each size is N times the one before, 1.5 for example (default 8, and the last size in any case)", GROUP_SIZES },
    { "stepbytes", 'i', "BYTES", 0, "each size is so much more than the one before", GROUP_SIZES },

    { NULL, 0, NULL, 0, "How:", GROUP_HOW },
    { "iters", 'n', "N", 0,
      "samples of a row (default: what fits into 0.2 s, 20 to 5000). A sample is one operation, or as many "
      "as take 20 us one after another", GROUP_HOW },
    { "warmup_iters", 'w', "N", 0, "operations before them (default 5)", GROUP_HOW },
    { "check", 'c', "N", 0,
      "check results N times, on fresh random data each time; 0: don't (default 1)", GROUP_HOW },
    { "seed", OPTION_SEED, "N", 0, "draw the data of the run that printed this seed again", GROUP_HOW },
    { "timeout", 'T', "SECONDS", 0, "deadline of an operation (default: the library's, 600)", GROUP_HOW },

    { "memory", OPTION_MEMORY, "private|registered", 0,
      "whether peers can read the buffers in place (default private)", GROUP_HOW },
    { "cold", OPTION_COLD, NULL, 0,
      "each operation finds its buffers in no cache: they take turns, and are thrown out before each sample",
      GROUP_HOW },

    { NULL, 0, NULL, 0,
      "Ranks (default: those of mpirun, mpiexec, srun or torchrun, or of RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT):", GROUP_RANKS },
    { "ranks", OPTION_RANKS, "N", 0, "start N processes on this host", GROUP_RANKS },
    { "threads", OPTION_THREADS, "N", 0, "N threads of this process, also as -t N", GROUP_RANKS },
    { "nthreads", 't', "N", OPTION_HIDDEN, NULL, GROUP_RANKS },
    { "bind", OPTION_BIND, "core|none", 0,
      "keep each rank on a core of its own, if there are as many (default core)", GROUP_RANKS },
    { "launched", OPTION_LAUNCHED, NULL, OPTION_HIDDEN, NULL, GROUP_RANKS },

    { NULL, 0, NULL, 0, "Output:", GROUP_OUTPUT },
    { "json", 'J', "FILE", OPTION_ARG_OPTIONAL,
      "one JSON object a line for each measurement, to FILE; without FILE to stdout, instead of the table",
      GROUP_OUTPUT },
    { "explain", OPTION_EXPLAIN, NULL, 0,
      "say below each row where its time went, rank by rank: waiting, copying, reducing, the library's own",
      GROUP_OUTPUT },
    { NULL, 0, NULL, 0, "Help:", -1 },

    /* nccl-tests has these; parse_foreign() says what to do instead. */
    { "ngpus", 'g', "N", OPTION_HIDDEN, NULL, 0 },
    { "agg_iters", 'm', "N", OPTION_HIDDEN, NULL, 0 },
    { "run_cycles", 'N', "N", OPTION_HIDDEN, NULL, 0 },
    { "average", 'a', "N", OPTION_HIDDEN, NULL, 0 },
    { "parallel_init", 'p', "N", OPTION_HIDDEN, NULL, 0 },
    { "blocking", 'z', "N", OPTION_HIDDEN, NULL, 0 },
    { "cudagraph", 'G', "N", OPTION_HIDDEN, NULL, 0 },
    { "local_register", 'R', "N", OPTION_HIDDEN, NULL, 0 },
    { 0 },
};
/* clang-format on */

/* clang-format off */
static const char before_options[] =
    "Measures Plait's collectives and checks their results, with nccl-tests' options and columns.\n"
    "\n"
    "  plait-perf [COLLECTIVE...]          how long collectives take\n"
    "  plait-perf overlap                  what is hidden behind the caller's work\n"
    "  plait-perf kernels|copy|line|wake   what they are made of (each has a --help)";

static const char after_options[] =
    "Examples:\n"
    "  plait-perf --ranks 2                            all_reduce, 8 B to 64 MiB\n"
    "  plait-perf --ranks 4 -b 1K -e 1M -f 2 all       every collective\n"
    "  plait-perf --threads 2 -d bf16,f32 -o average   ranks as threads\n"
    "  plait-perf --ranks 2 -b 1M -e 1M --explain      where the time goes\n"
    "  plait-perf --ranks 2 --cold                     buffers that no cache holds\n"
    "  plait-perf --ranks 2 --json=rows.json all       for a script\n"
    "  plait-perf overlap --ranks 2 -b 64K -e 16M\n"
    "  torchrun --no-python --nproc-per-node 2 plait-perf all_gather\n"
    "\n"
    "The slowest rank's time counts: median, 99th percentile and greatest of the samples. algbw = size / time, "
    "busbw as nccl-tests has it, 1 GB = 1e9 bytes. \"line\" is what a cache line takes between the cores of "
    "ranks 0 and 1 before and after a row: compare only rows in which it agrees. In results of more than 262144 "
    "elements, 16 of each 1024 are checked, those at the borders among them. The blocks of v-forms (all_gather_v "
    "and so on) grow from rank to rank.\n"
    "\n"
    "PLAIT_PLAN, PLAIT_TRANSPORT and the other PLAIT_* variables apply. Exit status: 0; 1 after a failure or "
    "a wrong result; 2 for a bad option. docs/perf.md says how to read it all.";
/* clang-format on */

static const char *parse_foreign(int key)
{
    switch (key) {
    case 'g': return "-g is for GPUs, and this measures host memory: use --ranks N";
    case 'm':
        return "-m has no meaning here: operations are not grouped, and short ones share a sample anyway "
               "(see -n)";
    case 'N': return "-N has no meaning here: use -c N to check more often, -n N for more samples";
    case 'a': return "-a has no meaning here: the slowest rank's time counts";
    case 'p':
    case 'z':
    case 'G':
    case 'R': return "-p, -z, -G and -R are for CUDA: leave them out";
    default: return NULL;
    }
}

static void bad_value(struct argp_state *state, const char *option, const char *value, const char *good)
{
    argp_error(state, "%s %s: good values are %s", option, value, good);
}

static int parse_int(struct argp_state *state, const char *option, const char *value, int least, int most)
{
    char good[64];
    int64_t number = 0;
    snprintf(good, sizeof good, "whole numbers from %d to %d", least, most);
    if (!value_number(value, least, most, &number))
        bad_value(state, option, value, good);
    return (int)number;
}

static size_t parse_size(struct argp_state *state, const char *option, const char *value)
{
    size_t size = 0;
    if (!value_size(value, &size))
        bad_value(state, option, value, SIZES);
    return size;
}

static void add_collective(struct options *options, struct argp_state *state, const char *name)
{
    bool all = strcmp(name, "all") == 0;
    const struct collective *found = collective_find(name);
    if (strcmp(name, "overlap") == 0) {
        options->overlap = true;
        return;
    }
    if (!all && !found)
        bad_value(state, "collective", name, COLLECTIVES);
    for (size_t i = 0; collective_at(i); i++)
        if ((all || collective_at(i) == found) && options->collective_count < LIST_MAX)
            options->collectives[options->collective_count++] = collective_at(i);
}

static void add_type(struct options *options, struct argp_state *state, const char *name)
{
    bool all = strcmp(name, "all") == 0;
    plait_type found = value_type(name);
    if (!all && !found)
        bad_value(state, "-d", name, TYPES);
    for (plait_type type = PLAIT_I8; type <= PLAIT_I64_I64; type++)
        if ((all || type == found) && options->type_count < LIST_MAX)
            options->types[options->type_count++] = type;
}

static void add_op(struct options *options, struct argp_state *state, const char *name)
{
    bool all = strcmp(name, "all") == 0;
    plait_op found = value_op(name);
    if (!all && !found)
        bad_value(state, "-o", name, OPS);
    for (plait_op op = PLAIT_SUM; op <= PLAIT_MAX_LOCATION; op++)
        if ((all || op == found) && options->op_count < LIST_MAX)
            options->ops[options->op_count++] = op;
}

/* Calls `add` for each name of a list "a,b,c". */
static void parse_list(struct options *options, struct argp_state *state, const char *text,
                       void (*add)(struct options *options, struct argp_state *state, const char *name))
{
    char *copy = strdup(text), *rest = copy, *name;
    if (!copy)
        argp_failure(state, EXIT_FAILURE, 0, "out of memory");
    while ((name = strsep(&rest, ",")))
        add(options, state, name);
    free(copy);
}

static int parse_root(struct argp_state *state, const char *value)
{
    int64_t root = 0;
    if (strcmp(value, "all") == 0)
        return ROOT_ALL;
    if (strcmp(value, "rotate") == 0)
        return ROOT_ROTATES;
    if (!value_number(value, 0, INT32_MAX, &root))
        bad_value(state, "-r", value, "a rank from 0 on, all, rotate");
    return (int)root;
}

static int64_t parse_timeout(struct argp_state *state, const char *value)
{
    char *end;
    double seconds = strtod(value, &end);
    if (end == value || *end || !(seconds >= 0.001 && seconds <= 1e7))
        bad_value(state, "--timeout", value, "seconds from 0.001 to 10000000");
    return (int64_t)(seconds * 1000);
}

static double parse_factor(struct argp_state *state, const char *value)
{
    char *end;
    double factor = strtod(value, &end);
    if (end == value || *end || !(factor >= 1 && factor <= 1 << 20))
        bad_value(state, "-f", value, "numbers from 1 to 1048576");
    return factor;
}

static uint64_t parse_seed(struct argp_state *state, const char *value)
{
    char *end;
    uint64_t seed = strtoull(value, &end, 0);
    if (end == value || *end || *value == '-')
        bad_value(state, "--seed", value, "whole numbers, 0x for hexadecimal ones");
    return seed;
}

/* "--json FILE" as well as "--json=FILE": the word after a bare --json is a file
 * unless it is an option or a collective. */
static const char *parse_json(struct argp_state *state, const char *value)
{
    if (value)
        return value;
    const char *next = state->next < state->argc ? state->argv[state->next] : NULL;
    if (!next || (next[0] == '-' && next[1]) || strcmp(next, "all") == 0 || strcmp(next, "overlap") == 0 ||
        collective_find(next))
        return "-";
    state->next++;
    return next;
}

/* Sets what was not given, and looks at what the options say together. */
static void finish(struct options *options, struct argp_state *state)
{
    if (options->collective_count == 0)
        options->collectives[options->collective_count++] = collective_find("all_reduce");
    if (options->type_count == 0)
        options->types[options->type_count++] = PLAIT_F32;
    if (options->op_count == 0)
        options->ops[options->op_count++] = PLAIT_SUM;
    if (options->step_factor > 0 && options->step_bytes)
        argp_error(state, "-f and -i exclude each other: sizes either multiply or add up");
    options->measure_end = options->step_factor <= 0 && !options->step_bytes;
    if (options->measure_end)
        options->step_factor = 8;
    if (options->overlap && (options->cold || options->explain))
        argp_error(state, "--cold and --explain are not for overlap: leave them out");
    if (options->least_bytes > options->most_bytes)
        argp_error(state, "-b %zu is more than -e %zu", options->least_bytes, options->most_bytes);
    if (!options->step_bytes && options->step_factor <= 1 && options->least_bytes < options->most_bytes)
        argp_error(state, "-f 1 never gets from -b %zu to -e %zu: use 1.1, 2 or more", options->least_bytes,
                   options->most_bytes);
    if (options->ranks && options->threads)
        argp_error(state, "--ranks and --threads exclude each other");
    int ranks = options->ranks ? options->ranks : options->threads;
    if (ranks && options->root >= ranks)
        argp_error(state, "-r %d: good values are 0 to %d, all, rotate", options->root, ranks - 1);
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct options *options = state->input;
    if (parse_foreign(key))
        argp_error(state, "%s", parse_foreign(key));
    switch (key) {
    case ARGP_KEY_ARG:
    case 'C': parse_list(options, state, value, add_collective); return 0;
    case 'd': parse_list(options, state, value, add_type); return 0;
    case 'o': parse_list(options, state, value, add_op); return 0;
    case 'r': options->root = parse_root(state, value); return 0;
    case 'b': options->least_bytes = parse_size(state, "-b", value); return 0;
    case 'e': options->most_bytes = parse_size(state, "-e", value); return 0;
    case 'f': options->step_factor = parse_factor(state, value); return 0;
    case 'i':
        options->step_bytes = parse_size(state, "-i", value);
        if (options->step_bytes == 0)
            bad_value(state, "-i", value, "1 and more " SIZES);
        return 0;
    case 'n': options->samples = parse_int(state, "-n", value, 1, 1000000); return 0;
    case 'w': options->warmups = parse_int(state, "-w", value, 0, 1000000); return 0;
    case 'c': options->checks = parse_int(state, "-c", value, 0, 1000000); return 0;
    case 'T': options->timeout_ms = parse_timeout(state, value); return 0;
    case 'J': options->json = parse_json(state, value); return 0;
    case OPTION_SEED:
        options->seeded = true;
        options->seed = parse_seed(state, value);
        return 0;
    case OPTION_RANKS: options->ranks = parse_int(state, "--ranks", value, 1, RANKS_MAX); return 0;
    case 't':
    case OPTION_THREADS: options->threads = parse_int(state, "--threads", value, 1, RANKS_MAX); return 0;
    case OPTION_BIND:
        options->bind = strcmp(value, "none") != 0;
        if (options->bind && strcmp(value, "core") != 0)
            bad_value(state, "--bind", value, "core, none");
        return 0;
    case OPTION_COLD: options->cold = true; return 0;
    case OPTION_EXPLAIN: options->explain = true; return 0;
    case OPTION_MEMORY:
        options->registered = strcmp(value, "registered") == 0;
        if (!options->registered && strcmp(value, "private") != 0)
            bad_value(state, "--memory", value, "private, registered");
        return 0;
    case OPTION_LAUNCHED: options->launched = true; return 0;
    case ARGP_KEY_END: finish(options, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "plait-perf %s\n", plait_version());
}

void options_parse(struct options *options, int argc, char **argv)
{
    static char doc[sizeof before_options + sizeof after_options];
    snprintf(doc, sizeof doc, "%s\v%s", before_options, after_options);
    const struct argp argp = { table, parse_option, "[overlap] [COLLECTIVE...]", doc, NULL, NULL, NULL };
    *options = (struct options){
        .least_bytes = 8, .most_bytes = (size_t)64 << 20, .warmups = 5, .checks = 1, .bind = true
    };
    argp_program_version_hook = print_version;
    argp_err_exit_status = EXIT_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, options);
}

/* The size after `bytes`; SIZE_MAX where there is none. */
static size_t next_size(const struct options *options, size_t bytes)
{
    if (options->step_bytes)
        return bytes <= SIZE_MAX - options->step_bytes ? bytes + options->step_bytes : SIZE_MAX;
    double next = (double)bytes * options->step_factor;
    if (next >= (double)(SIZE_MAX / 2))
        return SIZE_MAX;
    return (size_t)next > bytes ? (size_t)next : bytes + 1;
}

bool options_next_size(const struct options *options, size_t *bytes)
{
    size_t next = next_size(options, *bytes), most = options->most_bytes;
    if (next > most) {
        if (!options->measure_end || *bytes >= most)
            return false;
        next = most;
    }
    *bytes = next;
    return true;
}

#include "rank.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "bind.h"
#include "cold.h"
#include "data.h"
#include "overlap.h"
#include "report.h"

enum { POISON = 0xa5, PAGE = 4096, ELEMENT_MOST = 8 };

struct rank {
    const struct options *options;
    plait_world *world;
    plait_comm *comm;
    int rank, ranks;
    int cpu;              /* bound to it, or NOT_BOUND */
    struct report report; /* rank 0's */
    bool reporting;

    size_t capacity; /* bytes of each buffer */
    void *input, *output;
    double *samples;
    struct share *shares; /* of --explain: a rank each, for each place */
    uint64_t *keys;       /* one for each rank */
    size_t *counts;       /* of the v-forms: one for each rank */
    uint64_t seed, checks;
    uint64_t wrong;    /* on all ranks */
    char trouble[256]; /* our own sentence on a failure; "": the library has one */
};

static plait_status trouble(struct rank *rank, plait_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static plait_status trouble(struct rank *rank, plait_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rank->trouble, sizeof rank->trouble, format, arguments);
    va_end(arguments);
    return status;
}

static void complain(const struct rank *rank, plait_status status)
{
    static const char *const variables[] = { "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID" };
    char number[16] = "?";
    if (rank->rank >= 0)
        snprintf(number, sizeof number, "%d", rank->rank);
    for (size_t i = 0; rank->rank < 0 && i < sizeof variables / sizeof variables[0] && number[0] == '?'; i++)
        if (getenv(variables[i]))
            snprintf(number, sizeof number, "%s", getenv(variables[i]));
    fprintf(stderr, "plait-perf: rank %s: %s: %s\n", number, plait_status_name(status),
            *rank->trouble ? rank->trouble : plait_last_error());
}

/* The thread that makes progress while a caller computes inherits the caller's binding: where there is a second
 * core for each rank, overlap is measured with it free. */
static bool wants_binding(const struct rank *rank)
{
    return rank->options->bind &&
           !(rank->options->overlap && bind_allowed() >= 2 * plait_world_local_size(rank->world));
}

static plait_status join(struct rank *rank, plait_thread_group *group, int number)
{
    plait_world_options options = { .struct_size = sizeof options, .timeout_ms = rank->options->timeout_ms };
    if (group) {
        options.threads = group;
        options.rank = rank->rank = number;
        options.size = rank->options->threads;
    }
    plait_status status = plait_world_create(&options, &rank->world);
    if (status != PLAIT_OK)
        return status;
    rank->comm = plait_world_comm(rank->world);
    rank->rank = plait_world_rank(rank->world);
    rank->ranks = plait_world_size(rank->world);
    if (rank->options->root >= rank->ranks)
        return trouble(rank, PLAIT_INVALID_ARGUMENT, "-r %d: good values are 0 to %d, all, rotate",
                       rank->options->root, rank->ranks - 1);
    /* Not before the world is there: Plait looks at how many cores the ranks have between them. */
    rank->cpu = wants_binding(rank)
                    ? bind_to_core(plait_world_local_rank(rank->world), plait_world_local_size(rank->world))
                    : NOT_BOUND;
    return PLAIT_OK;
}

/* KiB that can be had without swapping; 0 if the system does not say. */
static size_t available_kib(void)
{
    char line[128];
    size_t kib = 0;
    FILE *info = fopen("/proc/meminfo", "re");
    if (!info)
        return 0;
    while (fgets(line, sizeof line, info))
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
            break;
    fclose(info);
    return kib;
}

/* Better said here than by the system, which would kill somebody once the buffers are touched. */
static plait_status check_memory(struct rank *rank)
{
    size_t have = available_kib();
    size_t want = 2 * (rank->capacity / 1024) * (size_t)plait_world_local_size(rank->world);
    if (have == 0 || want <= have)
        return PLAIT_OK;
    return trouble(
        rank, PLAIT_OUT_OF_MEMORY,
        "two buffers of %zu MiB for each of the %d ranks on this host, and only %zu MiB of memory are "
        "available: use a smaller -e",
        rank->capacity >> 20, plait_world_local_size(rank->world), have >> 10);
}

/* NULL with a sentence without memory. */
static void *allocate_buffer(struct rank *rank, size_t size)
{
    void *buffer = NULL;
    if (rank->options->registered)
        return plait_mem_alloc(rank->world, size, &buffer) == PLAIT_OK ? buffer : NULL;
    buffer = aligned_alloc(PAGE, size);
    if (!buffer)
        trouble(rank, PLAIT_OUT_OF_MEMORY, "no memory for two buffers of %zu bytes", size);
    return buffer;
}

static plait_status allocate(struct rank *rank)
{
    size_t size = (rank->capacity + PAGE) / PAGE * PAGE;
    rank->input = allocate_buffer(rank, size);
    rank->output = allocate_buffer(rank, size);
    rank->samples = malloc(measure_samples_most(rank->options) * sizeof *rank->samples);
    rank->keys = malloc((size_t)rank->ranks * sizeof *rank->keys);
    rank->counts = malloc((size_t)rank->ranks * sizeof *rank->counts);
    rank->shares = malloc(PLACES * (size_t)rank->ranks * sizeof *rank->shares);
    if (!rank->input || !rank->output)
        return PLAIT_OUT_OF_MEMORY;
    if (!rank->samples || !rank->keys || !rank->counts || !rank->shares)
        return trouble(rank, PLAIT_OUT_OF_MEMORY, "no memory for the measured times");
    memset(rank->input, POISON, size);
    memset(rank->output, POISON, size);
    return PLAIT_OK;
}

/* All ranks draw their data from rank 0's seed. */
static plait_status agree_on_seed(struct rank *rank)
{
    rank->seed = rank->options->seed;
    if (rank->rank == 0 && !rank->options->seeded &&
        getrandom(&rank->seed, sizeof rank->seed, 0) != (ssize_t)sizeof rank->seed)
        return trouble(rank, PLAIT_SYSTEM_ERROR, "the system gives no random numbers: use --seed N");
    return plait_broadcast(rank->comm, &rank->seed, 1, PLAIT_U64, 0, NULL);
}

static plait_status introduce(struct rank *rank, struct introduction *introductions)
{
    struct introduction own = { .pid = getpid(),
                                .local_rank = plait_world_local_rank(rank->world),
                                .cpu = rank->cpu };
    if (gethostname(own.host, sizeof own.host - 1) != 0)
        strcpy(own.host, "?");
    return plait_allgather(rank->comm, &own, introductions, sizeof own, PLAIT_U8, NULL);
}

static plait_status prepare(struct rank *rank)
{
    plait_world_facts facts = { .struct_size = sizeof facts };
    struct introduction *introductions = calloc((size_t)rank->ranks, sizeof *introductions);
    if (!introductions)
        return trouble(rank, PLAIT_OUT_OF_MEMORY, "no memory for %d ranks' names", rank->ranks);
    size_t least = (size_t)rank->ranks * ELEMENT_MOST;
    if (rank->options->cold && least < COLD_ROOM)
        least = COLD_ROOM;
    rank->capacity = rank->options->most_bytes > least ? rank->options->most_bytes : least;

    /* Everybody looks at the memory before anybody takes it. */
    plait_status status = check_memory(rank);
    if (status == PLAIT_OK)
        status = introduce(rank, introductions);
    if (status == PLAIT_OK)
        status = agree_on_seed(rank);
    if (status == PLAIT_OK)
        status = allocate(rank);
    if (status == PLAIT_OK)
        status = plait_world_get_facts(rank->world, &facts);
    if (status == PLAIT_OK && rank->rank == 0) {
        rank->reporting = report_open(&rank->report, rank->options, rank->ranks);
        if (rank->reporting)
            report_header(&rank->report, &facts, rank->seed, introductions);
        else
            status =
                trouble(rank, PLAIT_SYSTEM_ERROR, "can't write %s: %s", rank->options->json, strerror(errno));
    }
    free(introductions);
    return status;
}

static void complain_wrong(const struct call *call, bool in_place, const struct tally *tally)
{
    char root[32] = "";
    if (call->collective->rooted)
        snprintf(root, sizeof root, ", root %d", call->root);
    fprintf(stderr,
            "plait-perf: rank %d: %s of %zu %s%s%s%s, %s: %" PRIu64 " of %" PRIu64
            " elements are wrong, first number %zu: %.9g instead of %.9g\n",
            call->rank, call->collective->name, call->count, plait_type_name(call->type),
            call->collective->reduces ? ", " : "", call->collective->reduces ? plait_op_name(call->op) : "",
            root, in_place ? "in place" : "out of place", tally->wrong, tally->checked, tally->first,
            tally->got, tally->want);
}

static struct call call_of(const struct rank *rank, const struct row *row, bool in_place)
{
    struct call call = { .collective = row->collective,
                         .comm = rank->comm,
                         .rank = rank->rank,
                         .ranks = rank->ranks,
                         .root = row->root >= 0 ? row->root : 0,
                         .count = row->count,
                         .type = row->type,
                         .op = row->op };
    if (row->collective->uneven) {
        collective_counts(&call, rank->counts);
        call.counts = rank->counts;
    }
    collective_place(&call, rank->input, rank->output, in_place);
    return call;
}

/* One operation on fresh data. Counts what is wrong on this rank. */
static plait_status check_once(struct rank *rank, struct call *call, bool in_place, bool rotate,
                               uint64_t counts[2])
{
    size_t whole = collective_whole(call->collective, call->ranks, call->count);
    if (rotate)
        call->root = (int)(rank->checks % (uint64_t)rank->ranks);
    data_keys(rank->seed, rank->checks++, rank->ranks, rank->keys);
    memset(rank->output, POISON, whole * plait_type_size(call->type));
    data_fill(call->input, collective_input_count(call), call->type, call->op, rank->keys[rank->rank]);
    plait_status status = call->collective->start(call);
    if (status != PLAIT_OK)
        return status;
    struct tally tally = data_check(call, rank->keys);
    if (tally.wrong)
        complain_wrong(call, in_place, &tally);
    counts[0] += tally.checked;
    counts[1] += tally.wrong;
    return PLAIT_OK;
}

static plait_status check(struct rank *rank, struct call *call, bool in_place, bool rotate,
                          struct measurement *measurement)
{
    uint64_t counts[2] = { 0 };
    plait_status status = PLAIT_OK;
    if (rank->options->checks == 0 || call->collective->output == NO_DATA)
        return PLAIT_OK;
    for (int i = 0; i < rank->options->checks && status == PLAIT_OK; i++)
        status = check_once(rank, call, in_place, rotate, counts);
    if (status == PLAIT_OK)
        status = plait_allreduce(rank->comm, counts, counts, 2, PLAIT_U64, PLAIT_SUM, NULL);
    measurement->checked = counts[0];
    measurement->wrong = counts[1];
    rank->wrong += counts[1];
    return status;
}

static void calm_buffers(struct rank *rank, const struct row *row, bool in_place)
{
    if (row->count == 0)
        return;
    size_t whole = rank->options->cold ? rank->capacity / plait_type_size(row->type)
                                       : collective_whole(row->collective, rank->ranks, row->count);
    data_fill_calm(rank->input, whole, row->type, row->op, in_place);
    data_fill_calm(rank->output, whole, row->type, row->op, in_place);
}

static plait_status explain(struct rank *rank, struct repetition *repetition, bool in_place,
                            struct measurement *measurement)
{
    struct share *shares = rank->shares + (in_place ? rank->ranks : 0);
    plait_status status = explain_call(repetition, shares);
    if (status == PLAIT_OUT_OF_MEMORY)
        return trouble(rank, status, "no memory to explain a row");
    measurement->shares = shares;
    return status;
}

static plait_status measure_place(struct rank *rank, const struct row *row, bool in_place,
                                  struct measurement *measurement)
{
    struct repetition repetition = { .rotate = row->root == ROOT_ROTATES,
                                     .whole = row->bytes,
                                     .cold_room = rank->options->cold ? rank->capacity : 0 };
    repetition.call = call_of(rank, row, in_place);
    plait_status status = check(rank, &repetition.call, in_place, repetition.rotate, measurement);
    calm_buffers(rank, row, in_place);
    if (status == PLAIT_OK)
        status = plait_comm_measure_line(rank->comm, &measurement->line_before);
    if (status == PLAIT_OK)
        status = measure_call(&repetition, rank->options, rank->samples, &measurement->timing);
    if (status == PLAIT_OK)
        status = plait_comm_measure_line(rank->comm, &measurement->line_after);
    if (status == PLAIT_OK && rank->options->explain)
        status = explain(rank, &repetition, in_place, measurement);
    if (status == PLAIT_OK && measurement->timing.time_us > 0)
        measurement->algbw = (double)row->bytes / measurement->timing.time_us / 1000;
    measurement->busbw = measurement->algbw * row->collective->bus_factor(rank->ranks);
    measurement->made = true;
    return status;
}

/* A row of "overlap", out of place where the API allows it. */
static plait_status overlap_row(struct rank *rank, const struct row *row)
{
    struct overlap overlap = { 0 };
    bool in_place = !row->collective->out_of_place;
    struct call call = call_of(rank, row, in_place);
    calm_buffers(rank, row, in_place);
    plait_status status = overlap_measure(&call, rank->options, &overlap);
    if (status == PLAIT_OUT_OF_MEMORY)
        return trouble(rank, status, "no memory for samples");
    if (status == PLAIT_OK && rank->reporting)
        report_overlap(&rank->report, row, &overlap);
    return status;
}

static plait_status measure_row(struct rank *rank, const struct row *row)
{
    if (rank->options->overlap)
        return overlap_row(rank, row);
    struct measurement places[PLACES] = { 0 };
    plait_status status = PLAIT_OK;
    if (rank->reporting)
        report_progress(&rank->report, row);
    if (row->collective->out_of_place)
        status = measure_place(rank, row, false, &places[OUT_OF_PLACE]);
    if (status == PLAIT_OK && row->collective->in_place)
        status = measure_place(rank, row, true, &places[IN_PLACE]);
    if (status == PLAIT_OK && rank->reporting)
        report_row(&rank->report, row, places);
    return status;
}

/* Small sizes may come to the same count, such as one element for each rank: once is enough. */
static plait_status measure_sizes(struct rank *rank, struct row *row)
{
    size_t bytes = rank->options->least_bytes;
    bool first = true;
    plait_status status = PLAIT_OK;
    do {
        size_t count = collective_count(row->collective, rank->ranks, row->type, bytes);
        if (!first && count == row->count)
            continue;
        first = false;
        row->count = count;
        row->bytes = collective_whole(row->collective, rank->ranks, count) * plait_type_size(row->type);
        status = measure_row(rank, row);
    } while (status == PLAIT_OK && options_next_size(rank->options, &bytes));
    return status;
}

static plait_status measure_roots(struct rank *rank, struct row *row)
{
    int wanted = rank->options->root;
    bool all = row->collective->rooted && wanted == ROOT_ALL;
    plait_status status = PLAIT_OK;
    for (int root = 0; root < (all ? rank->ranks : 1) && status == PLAIT_OK; root++) {
        row->root = !row->collective->rooted ? NO_ROOT : all ? root : wanted;
        status = measure_sizes(rank, row);
    }
    return status;
}

static void note_left_out(struct rank *rank, const struct row *row)
{
    char text[96];
    snprintf(text, sizeof text, "%s of %s is not defined (docs/types.md): left out", plait_op_name(row->op),
             plait_type_name(row->type));
    if (rank->reporting)
        report_note(&rank->report, text);
}

static plait_status measure_ops(struct rank *rank, struct row *row)
{
    plait_status status = PLAIT_OK;
    for (int op = 0; op < (row->collective->reduces ? rank->options->op_count : 1) && status == PLAIT_OK;
         op++) {
        row->op = row->collective->reduces ? rank->options->ops[op] : (plait_op)0;
        if (row->collective->reduces && !plait_type_reduces(row->type, row->op))
            note_left_out(rank, row);
        else
            status = measure_roots(rank, row);
    }
    return status;
}

static plait_status measure_collective(struct rank *rank, const struct collective *collective)
{
    struct row row = { .collective = collective, .root = NO_ROOT };
    if (rank->ranks < collective->least_ranks || (rank->options->overlap && !collective->reports_plan)) {
        if (rank->reporting)
            report_note(&rank->report, rank->options->overlap ? "sendrecv is two works, for overlap: left out"
                                                              : "sendrecv needs two ranks: left out");
        return PLAIT_OK;
    }
    if (collective->output == NO_DATA)
        return measure_row(rank, &row);
    plait_status status = PLAIT_OK;
    for (int type = 0; type < rank->options->type_count && status == PLAIT_OK; type++) {
        row.type = rank->options->types[type];
        status = measure_ops(rank, &row);
    }
    return status;
}

static plait_status measure_all(struct rank *rank)
{
    plait_status status = PLAIT_OK;
    for (int i = 0; i < rank->options->collective_count && status == PLAIT_OK; i++)
        status = measure_collective(rank, rank->options->collectives[i]);
    if (status == PLAIT_OK) /* nobody leaves while somebody still needs the others */
        status = plait_barrier(rank->comm, NULL);
    return status;
}

int rank_run(const struct options *options, plait_thread_group *group, int number)
{
    struct rank rank = { .options = options, .rank = -1 };
    bool written = true;
    plait_status status = join(&rank, group, number);
    if (status == PLAIT_OK)
        status = prepare(&rank);
    if (status == PLAIT_OK)
        status = measure_all(&rank);
    if (status != PLAIT_OK)
        complain(&rank, status);
    if (*rank.trouble && rank.world)
        plait_world_abort(rank.world, rank.trouble);
    if (rank.reporting)
        written = report_close(&rank.report, status == PLAIT_OK);

    plait_world_destroy(rank.world); /* registered buffers go with it */
    if (!options->registered) {
        free(rank.input);
        free(rank.output);
    }
    free(rank.samples);
    free(rank.shares);
    free(rank.counts);
    free(rank.keys);
    return status == PLAIT_OK && written && rank.wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

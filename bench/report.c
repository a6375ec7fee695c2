#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "bind.h"
#include "overlap.h"
#include "text.h"

static const char *type_of(const struct row *row)
{
    return row->type ? plait_type_name(row->type) : "none";
}

static const char *op_of(const struct row *row)
{
    return row->op ? plait_op_name(row->op) : "none";
}

bool report_open(struct report *report, const struct options *options, int ranks)
{
    *report = (struct report){ .options = options, .ranks = ranks, .table = stdout };
    report->progress = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
    if (!options->json)
        return true;
    if (strcmp(options->json, "-") == 0) {
        report->json = stdout;
        report->table = NULL;
        report->progress = false;
        return true;
    }
    report->json = fopen(options->json, "we");
    return report->json != NULL;
}

static void print_ranks(FILE *table, int ranks, const struct introduction *introductions)
{
    fprintf(table, "# Ranks\n");
    for (int rank = 0; rank < ranks; rank++) {
        const struct introduction *own = &introductions[rank];
        fprintf(table, "#  Rank %3d  Pid %7" PRId64 "  on %s, local rank %d", rank, own->pid, own->host,
                own->local_rank);
        if (own->cpu != NOT_BOUND)
            fprintf(table, ", bound to CPU %d", own->cpu);
        fprintf(table, "\n");
    }
    fprintf(table, "#\n");
}

void report_header(struct report *report, const plait_world_facts *facts, uint64_t seed,
                   const struct introduction *introductions)
{
    const struct options *options = report->options;
    report->transport = facts->transport;
    if (!report->table)
        return;
    fprintf(report->table, "# plait-perf, Plait %s\n", plait_version());
    fprintf(report->table, "# %d %s, transport %s, kernels %s, %d %s for rank 0, staging %zu KiB a rank\n",
            report->ranks, report->ranks == 1 ? "rank" : "ranks",
            facts->transport ? facts->transport : "none", facts->kernels ? facts->kernels : "none",
            facts->cores, facts->cores == 1 ? "core" : "cores", facts->staging_size / 1024);
    fprintf(report->table,
            "# minBytes %zu maxBytes %zu step: %.9g(%s) warmup iters: %d samples: ", options->least_bytes,
            options->most_bytes, options->step_bytes ? (double)options->step_bytes : options->step_factor,
            options->step_bytes ? "bytes" : "factor", options->warmups);
    if (options->samples)
        fprintf(report->table, "%d", options->samples);
    else
        fprintf(report->table, "auto");
    fprintf(report->table, " checks: %d seed: %#" PRIx64 "%s%s\n#\n", options->checks, seed,
            options->cold ? " caches: cold" : "", options->registered ? " memory: registered" : "");
    print_ranks(report->table, report->ranks, introductions);
    if (report->ranks == 1)
        fprintf(report->table, "# With one rank nothing travels: --ranks N starts more\n");
    fflush(report->table);
}

static void print_column_names(FILE *table)
{
    static const char places[] = "    time     p99     max   algbw   busbw  wrong";
    static const char units[] = "    (us)    (us)    (us)  (GB/s)  (GB/s)       ";
    fprintf(table, "#%46s%-48s%s\n", "", "  out of place", "  in place");
    fprintf(table, "# %9s %11s %5s %8s %6s %s  %s      line  plan\n", "size", "count", "type", "redop",
            "root", places, places);
    fprintf(table, "# %9s %11s %5s %8s %6s %s  %s      (ns)\n", "(B)", "(elements)", "", "", "", units,
            units);
}

static void start_section(struct report *report, const struct collective *collective)
{
    if (report->section == collective)
        return;
    report->section = collective;
    fprintf(report->table, "# %s\n", collective->name);
    print_column_names(report->table);
}

static void print_place(const struct report *report, const struct measurement *place)
{
    FILE *table = report->table;
    fprintf(table, " ");
    if (!place->made) {
        fprintf(table, "%8s%8s%8s%8s%8s%7s", "N/A", "N/A", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    text_number(table, 8, place->timing.time_us);
    text_number(table, 8, place->timing.p99_us);
    text_number(table, 8, place->timing.max_us);
    text_number(table, 8, place->algbw);
    text_number(table, 8, place->busbw);
    if (report->options->checks)
        fprintf(table, " %6" PRIu64, place->wrong);
    else
        fprintf(table, " %6s", "N/A");
}

static void print_lines(FILE *table, const struct measurement places[PLACES])
{
    const struct measurement *first = &places[places[OUT_OF_PLACE].made ? OUT_OF_PLACE : IN_PLACE];
    const struct measurement *last = &places[places[IN_PLACE].made ? IN_PLACE : OUT_OF_PLACE];
    char text[48] = "-";
    if (first->line_before > 0 || last->line_after > 0)
        snprintf(text, sizeof text, "%.0f %.0f", first->line_before, last->line_after);
    fprintf(table, " %8s", text);
}

static void print_plans(FILE *table, const struct measurement places[PLACES])
{
    const char *first = places[OUT_OF_PLACE].made ? places[OUT_OF_PLACE].timing.plan : NULL;
    const char *second = places[IN_PLACE].made ? places[IN_PLACE].timing.plan : NULL;
    if (first && second && strcmp(first, second) != 0)
        fprintf(table, "  %s, %s\n", first, second);
    else
        fprintf(table, "  %s\n", first ? first : second ? second : "-");
}

static void print_row(struct report *report, const struct row *row, const struct measurement places[PLACES])
{
    FILE *table = report->table;
    start_section(report, row->collective);
    fprintf(table, "%11zu %11zu %5s %8s ", row->bytes, row->count, type_of(row), op_of(row));
    if (row->root == ROOT_ROTATES)
        fprintf(table, "%6s", "rotate");
    else
        fprintf(table, "%6d", row->root);
    print_place(report, &places[OUT_OF_PLACE]);
    fprintf(table, " ");
    print_place(report, &places[IN_PLACE]);
    print_lines(table, places);
    print_plans(table, places);
    for (int place = 0; place < PLACES; place++)
        if (places[place].shares)
            explain_print(table, places[place].shares, report->ranks,
                          place == IN_PLACE ? "in place" : "apart", places[place].line_after);
    fflush(table);
}

static void print_json_root(FILE *json, int root)
{
    fputs(", \"root\": ", json);
    if (root == NO_ROOT)
        fputs("null", json);
    else if (root == ROOT_ROTATES)
        fputs("\"rotate\"", json);
    else
        fprintf(json, "%d", root);
}

static void print_json(const struct report *report, const struct row *row, const struct measurement *place,
                       bool in_place)
{
    FILE *json = report->json;
    fputs("{\"collective\": ", json);
    json_string(json, row->collective->name);
    fputs(", \"type\": ", json);
    json_string(json, row->type ? plait_type_name(row->type) : NULL);
    fputs(", \"op\": ", json);
    json_string(json, row->op ? plait_op_name(row->op) : NULL);
    print_json_root(json, row->root);
    fprintf(json, ", \"ranks\": %d, \"bytes\": %zu, \"count\": %zu, \"in_place\": %s", report->ranks,
            row->bytes, row->count, in_place ? "true" : "false");
    json_number(json, "time_us", place->timing.time_us);
    json_number(json, "p99_us", place->timing.p99_us);
    json_number(json, "max_us", place->timing.max_us);
    json_number(json, "algbw_gbs", place->algbw);
    json_number(json, "busbw_gbs", place->busbw);
    fprintf(json, ", \"iters\": %" PRIu64, place->timing.iters);
    if (report->options->checks)
        fprintf(json, ", \"wrong\": %" PRIu64 ", \"checked\": %" PRIu64, place->wrong, place->checked);
    else
        fputs(", \"wrong\": null, \"checked\": 0", json);
    fprintf(json, ", \"line_ns\": {\"before\": %.4g, \"after\": %.4g}", place->line_before,
            place->line_after);
    fputs(", \"transport\": ", json);
    json_string(json, report->transport);
    fputs(", \"plan\": ", json);
    json_string(json, place->timing.plan);
    fprintf(json, ", \"cold\": %s, \"memory\": \"%s\"", report->options->cold ? "true" : "false",
            report->options->registered ? "registered" : "private");
    if (report->options->explain)
        explain_json(json, place->shares, report->ranks);
    fputs("}\n", json);
}

void report_note(struct report *report, const char *text)
{
    if (report->table)
        fprintf(report->table, "# %s\n", text);
}

void report_progress(const struct report *report, const struct row *row)
{
    if (report->progress)
        fprintf(stderr, "\r\033[K... %s %s %zu bytes\r", row->collective->name, type_of(row), row->bytes);
}

void report_row(struct report *report, const struct row *row, const struct measurement places[PLACES])
{
    if (report->progress)
        fprintf(stderr, "\033[K");
    for (int place = 0; place < PLACES; place++) {
        if (!places[place].made)
            continue;
        report->measurements += row->bytes > 0;
        report->busbw_sum += places[place].busbw;
        report->wrong += places[place].wrong;
        if (report->json)
            print_json(report, row, &places[place], place == IN_PLACE);
    }
    if (report->json)
        fflush(report->json);
    if (report->table)
        print_row(report, row, places);
}

void report_overlap(struct report *report, const struct row *row, const struct overlap *overlap)
{
    if (report->json)
        overlap_json(report->json, row, report->ranks, overlap);
    if (!report->table)
        return;
    if (report->section != row->collective)
        overlap_print_head(report->table, row->collective);
    report->section = row->collective;
    overlap_print(report->table, row, overlap);
}

static void print_summary(const struct report *report)
{
    if (report->options->overlap)
        return;
    if (report->options->checks)
        fprintf(report->table, "# Out of bounds values : %" PRIu64 " %s\n", report->wrong,
                report->wrong ? "FAILED" : "OK");
    else
        fprintf(report->table, "# Out of bounds values : not checked\n");
    if (report->measurements)
        fprintf(report->table, "# Avg bus bandwidth    : %.3f\n",
                report->busbw_sum / (double)report->measurements);
}

static bool flushed(FILE *stream, const char *name)
{
    if (fflush(stream) == 0 && !ferror(stream))
        return true;
    fprintf(stderr, "plait-perf: can't write to %s: %s\n", name, strerror(errno));
    return false;
}

bool report_close(struct report *report, bool complete)
{
    bool written = true;
    if (report->progress)
        fprintf(stderr, "\r\033[K");
    if (report->table && complete)
        print_summary(report);
    if (report->table)
        written = flushed(report->table, "stdout");
    if (report->json) {
        written = flushed(report->json, report->json == stdout ? "stdout" : report->options->json) && written;
        if (report->json != stdout)
            fclose(report->json);
    }
    report->table = report->json = NULL;
    return written;
}

#include "bootstrap_ranks.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/store_view.h"
#include "check.h"

static void *run_start(void *argument)
{
    struct start *start = argument;
    struct card mine;
    while (start->gate != NULL && atomic_load(start->gate) == 0)
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    nanosleep(&(struct timespec){ start->delay_ms / 1000, start->delay_ms % 1000 * 1000000L }, NULL);
    memset(&mine, start->options.rank + 1, sizeof mine);
    int64_t begin = clock_ns();
    start->options.deadline = deadline_after_ms(start->timeout_ms);
    start->status = bootstrap_exchange(&start->options, &mine, start->cards, &start->result);
    start->seconds = (double)(clock_ns() - begin) / 1e9;
    snprintf(start->sentence, sizeof start->sentence, "%s",
             start->status == PLAIT_OK ? "" : plait_last_error());
    return NULL;
}

void starts_run(struct start *starts, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&starts[i].thread, NULL, run_start, &starts[i]), 0);
    for (int i = 0; i < count; i++)
        pthread_join(starts[i].thread, NULL);
}

void starts_end(struct start *starts, int count)
{
    for (int i = 0; i < count; i++)
        free(starts[i].cards);
}

void starts_fill(struct start *starts, int size, struct bootstrap_options options, int64_t timeout_ms)
{
    for (int i = 0; i < size; i++) {
        memset(&starts[i], 0, sizeof starts[i]);
        starts[i].options = options;
        starts[i].options.rank = i;
        starts[i].options.size = size;
        starts[i].timeout_ms = timeout_ms;
        starts[i].cards = calloc((size_t)START_RANKS_MAX, sizeof *starts[i].cards);
        assert_non_null(starts[i].cards);
    }
}

void starts_check(const struct start *starts, int size)
{
    for (int i = 0; i < size; i++) {
        assert_string_equal(starts[i].sentence, "");
        assert_int_equal(starts[i].status, PLAIT_OK);
        assert_int_not_equal(starts[i].result.generation, 0);
        assert_true(starts[i].result.generation == starts[0].result.generation);
        assert_memory_equal(starts[i].result.job_key, starts[0].result.job_key, JOB_KEY_BYTES);
        for (int j = 0; j < size; j++)
            for (size_t k = 0; k < CARD_BYTES; k += CARD_BYTES - 1)
                assert_int_equal(starts[i].cards[j].bytes[k], j + 1);
    }
}

/* ------------------------------------------------------------------ store */

static int store_set(void *context, const char *key, const void *value, size_t size)
{
    struct store_view view = memory_store_view(context);
    return view.set(view.context, key, value, size);
}

static int store_get(void *context, const char *key, void *value, size_t *size, int64_t timeout_ms)
{
    struct store_view view = memory_store_view(context);
    return timeout_ms < 1 ? -1 : view.get(view.context, key, value, size, deadline_after_ms(timeout_ms));
}

static int store_add(void *context, const char *key, int64_t amount, int64_t *sum)
{
    struct store_view view = memory_store_view(context);
    return view.add(view.context, key, amount, sum);
}

plait_store *test_store_create(void)
{
    plait_store *store = calloc(1, sizeof *store);
    assert_non_null(store);
    *store = (plait_store){ sizeof *store, memory_store_create(), store_set, store_get, store_add, NULL };
    assert_non_null(store->context);
    return store;
}

void test_store_destroy(plait_store *store)
{
    memory_store_destroy(store->context);
    free(store);
}

/* ------------------------------------------------------------------ ports */

static bool port_is_free(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0;
    close(fd);
    return is_free;
}

int free_port(void)
{
    static int turn;
    for (;;) {
        int first = 10240 + (getpid() * 131 + turn++) % 1300 * 16, next = first;
        while (next < first + 16 && port_is_free(next))
            next++;
        if (next == first + 16)
            return first;
    }
}

/* -------------------------------------------------------------------- log */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char *lines[1000];
static int line_count;

static void keep_line(void *context, plait_log_level level, const char *line)
{
    (void)context;
    (void)level;
    pthread_mutex_lock(&log_lock);
    if (line_count < 1000)
        lines[line_count++] = strdup(line);
    pthread_mutex_unlock(&log_lock);
}

void log_release(void)
{
    plait_log_set_sink(NULL, NULL);
    pthread_mutex_lock(&log_lock);
    while (line_count > 0)
        free(lines[--line_count]);
    pthread_mutex_unlock(&log_lock);
}

void log_capture(void)
{
    log_release();
    plait_log_set_sink(keep_line, NULL);
}

int log_count(const char *text)
{
    int count = 0;
    pthread_mutex_lock(&log_lock);
    for (int i = 0; i < line_count; i++)
        count += text == NULL || strstr(lines[i], text) != NULL;
    if (getenv("SHOW_LOG") != NULL)
        for (int i = 0; i < line_count; i++)
            fprintf(stderr, "  log: %s\n", lines[i]);
    pthread_mutex_unlock(&log_lock);
    return count;
}

int open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* What goes wrong while a world starts: missing ranks, two with one number, other keys, dead
 * processes, and what they leave behind. Over every way that it can happen on. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap_ranks.h"
#include "check.h"

enum way { THREADS, STORE, FILE_WAY, TCP, WAYS };
static const char *const way_names[] = { "threads", "store", "file", "tcp" };

static struct start starts[START_RANKS_MAX];
static struct bootstrap_options options;
static char file[64];
static plait_store *store;
static int descriptors;

static void begin(enum way way, int size)
{
    memset(&options, 0, sizeof options);
    snprintf(file, sizeof file, "/tmp/plait-faults-%d", (int)getpid());
    unlink(file);
    if (way == THREADS)
        assert_int_equal(plait_thread_group_create(size, &options.threads), PLAIT_OK);
    if (way == STORE)
        options.store = store = test_store_create();
    if (way == FILE_WAY)
        options.file = file;
    if (way == TCP) {
        options.address = "127.0.0.1";
        options.port = free_port();
    }
    log_capture();
    descriptors = open_descriptors();
}

static void end(void)
{
    assert_int_equal(open_descriptors(), descriptors);
    log_release();
    plait_thread_group_destroy(options.threads);
    if (store != NULL)
        test_store_destroy(store);
    store = NULL;
    unlink(file);
}

/* `count` starts of a world of `size`, with these ranks. */
static void fill(const int *ranks, int count, int size, int64_t timeout_ms)
{
    starts_fill(starts, count, options, timeout_ms);
    for (int i = 0; i < count; i++) {
        starts[i].options.rank = ranks[i];
        starts[i].options.size = size;
    }
}

/* All ended like this, and within `seconds` on an idle machine. */
static void check_all(int count, plait_status status, const char *part, double seconds)
{
    seconds *= 3; /* this one may be busy */
    for (int i = 0; i < count; i++) {
        if (starts[i].status != status || strstr(starts[i].sentence, part) == NULL ||
            starts[i].seconds > seconds)
            print_message("rank %d after %.3f s: %s, \"%s\"\n", starts[i].options.rank, starts[i].seconds,
                          plait_status_name(starts[i].status), starts[i].sentence);
        assert_int_equal(starts[i].status, status);
        assert_non_null(strstr(starts[i].sentence, part));
        assert_true(starts[i].seconds <= seconds);
    }
}

/* A whole world over what a failed one has left. */
static void check_next_world(int size)
{
    starts_fill(starts, size, options, 10000);
    starts_run(starts, size);
    starts_check(starts, size);
    starts_end(starts, size);
}

static void missing_ranks_are_named(void **state)
{
    begin(*(enum way *)*state, 8);
    fill((int[]){ 0, 1, 2, 4 }, 4, 8, 500);
    starts_run(starts, 4);
    check_all(4, PLAIT_START_FAILED, "ranks 3, 5-7 of 8 did not come within ", 0.8);
    for (int i = 1; i < 4; i++)
        assert_string_equal(starts[i].sentence, starts[0].sentence);
    if (options.address != NULL)
        assert_non_null(strstr(starts[0].sentence, "rank 0 listened on 127.0.0.1:"));
    starts_end(starts, 4);
    check_next_world(8);
    end();
}

static void missing_leader_is_named(void **state)
{
    begin(*(enum way *)*state, 3);
    fill((int[]){ 1, 2 }, 2, 3, 250);
    starts_run(starts, 2);
    check_all(2, PLAIT_START_FAILED,
              options.address != NULL ? "found no rank 0 within " : "rank 0 did not come within ", 0.6);
    if (options.address != NULL)
        assert_non_null(strstr(starts[0].sentence, "Connection refused"));
    starts_end(starts, 2);
    check_next_world(3);
    end();
}

/* A second process with a number, when the world is complete, hears who has it; over TCP nobody is left to ask. */
static void late_duplicate_hears_who_has_its_number(void **state)
{
    char has_it[64];
    begin(*(enum way *)*state, 3);
    check_next_world(3);
    check_next_world(3);
    fill((int[]){ 1 }, 1, 3, 250);
    starts_run(starts, 1);
    snprintf(has_it, sizeof has_it, "rank 1 was pid %d", (int)getpid());
    check_all(1, PLAIT_START_FAILED, options.address != NULL ? "found no rank 0" : has_it, 0.6);
    assert_non_null(strstr(starts[0].sentence, "number is taken"));
    starts_end(starts, 1);
    check_next_world(3);
    end();
}

/* The rank with the shortest deadline speaks for all: nobody waits for a world that can't be. */
static void earliest_deadline_counts(void **state)
{
    begin(*(enum way *)*state, 3);
    fill((int[]){ 0, 1 }, 2, 3, 10000);
    starts[1].timeout_ms = 300;
    starts_run(starts, 2);
    check_all(2, PLAIT_START_FAILED, "rank 2 of 3 did not come", 0.8);
    starts_end(starts, 2);
    end();
}

/* Both claimants and all others that are there fail at once, with one sentence. */
static void check_claimed_twice(const char *sentence)
{
    check_all(4, PLAIT_START_FAILED, sentence, 1.0);
    char pid[32];
    snprintf(pid, sizeof pid, "pid %d", (int)getpid());
    const char *first = strstr(starts[0].sentence, pid);
    assert_non_null(first);
    assert_non_null(strstr(first + 1, pid));
    starts_end(starts, 4);
    check_next_world(4);
}

static void two_with_one_number(void **state)
{
    begin(*(enum way *)*state, 4);
    fill((int[]){ 0, 1, 1, 2 }, 4, 4, 10000);
    starts[2].delay_ms = 150;
    starts_run(starts, 4);
    check_claimed_twice("two processes claim rank 1 of 4: pid ");
    end();
}

/* ... also when they come at the same moment; the fourth may be too late to hear it. */
static void two_at_once(void **state)
{
    begin(*(enum way *)*state, 4);
    for (int i = 0; i < 5; i++) {
        fill((int[]){ 0, 1, 1 }, 3, 4, 10000);
        starts_run(starts, 3);
        check_all(3, PLAIT_START_FAILED, "two processes claim rank 1 of 4: pid ", 1.0);
        starts_end(starts, 3);
    }
    end();
}

static void two_leaders(void **state)
{
    begin(*(enum way *)*state, 4);
    fill((int[]){ 0, 1, 0, 2 }, 4, 4, 10000);
    starts[2].delay_ms = 150;
    starts_run(starts, 4);
    check_claimed_twice("two processes claim rank 0 of 4: pid ");
    end();
}

static void another_size(void **state)
{
    begin(*(enum way *)*state, 4);
    fill((int[]){ 0, 1, 2 }, 3, 4, 700);
    starts[2].options.size = 9;
    starts[2].options.rank = 7;
    starts_run(starts, 3);
    assert_int_equal(starts[2].status, options.threads != NULL ? PLAIT_INVALID_ARGUMENT : PLAIT_START_FAILED);
    assert_non_null(strstr(starts[2].sentence, options.threads != NULL
                                                   ? "made for 4 ranks"
                                                   : "was started for a world of 9 ranks"));
    assert_true(starts[2].seconds < 1.0);
    check_all(2, PLAIT_START_FAILED,
              options.threads != NULL ? "ranks 2, 3 of 4" : "was started for a world of 9 ranks", 1.0);
    starts_end(starts, 3);
    end();
}

static void another_key(void **state)
{
    begin(*(enum way *)*state, 3);
    fill((int[]){ 0, 1, 2 }, 3, 3, 500);
    for (int i = 0; i < 3; i++) {
        starts[i].options.job_key = i == 2 ? "open barley" : "open sesame";
        starts[i].options.job_key_size = 11;
    }
    starts_run(starts, 3);
    check_all(2, PLAIT_START_FAILED, "rank 2 of 3 did not come", 0.8);
    assert_int_equal(starts[2].status, PLAIT_START_FAILED);
    assert_non_null(strstr(starts[2].sentence, "job key"));
    if (options.address != NULL)
        assert_in_range(log_count("has another job key"), 1, 4);
    else
        assert_int_equal(log_count("another job key"), 1);
    starts_end(starts, 3);
    end();
}

/* ---------------------------------------------------------- dead processes */

/* A process that starts as `rank` and is killed after `ms`. */
static pid_t doomed(int rank, int size)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct card card = { { 0 } };
    struct card *cards = calloc((size_t)size, sizeof *cards);
    struct bootstrap_result result;
    plait_log_set_sink(NULL, NULL);
    options.rank = rank;
    options.size = size;
    options.deadline = deadline_after_ms(20000);
    _exit(bootstrap_exchange(&options, &card, cards, &result) == PLAIT_OK ? 0 : 1);
}

static void kill_after(pid_t pid, int ms)
{
    int status;
    nanosleep(&(struct timespec){ 0, ms * 1000000L }, NULL);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static atomic_int killed; /* a gate for those that come after */

static void *kill_both(void *argument)
{
    kill_after(((pid_t *)argument)[0], 150);
    if (((pid_t *)argument)[1] != 0)
        kill_after(((pid_t *)argument)[1], 1);
    atomic_store(&killed, 1);
    return NULL;
}

/* Rank 0 and a joiner die; new ones come in their place while another joiner waits all along. */
static void dead_ones_are_replaced(void **state)
{
    begin(*(enum way *)*state, 4);
    pid_t dead[2] = { doomed(0, 4), doomed(1, 4) };
    pthread_t killer;
    starts_fill(starts, 4, options, 10000);
    atomic_store(&killed, 0);
    starts[0].gate = starts[1].gate = starts[3].gate = &killed;
    starts[0].delay_ms = 50;
    pthread_create(&killer, NULL, kill_both, dead);
    starts_run(starts, 4);
    pthread_join(killer, NULL);
    starts_check(starts, 4);
    starts_end(starts, 4);
    check_next_world(4);
    end();
}

/* All of a world die; the next one's joiners come before its rank 0. */
static void a_crashed_run_confuses_nobody(void **state)
{
    begin(*(enum way *)*state, 3);
    pid_t dead[2] = { doomed(0, 3), doomed(1, 3) };
    kill_both(dead);
    starts_fill(starts, 3, options, 10000);
    starts[0].delay_ms = 200;
    starts_run(starts, 3);
    starts_check(starts, 3);
    starts_end(starts, 3);
    check_next_world(3);
    end();
}

/* Over TCP a joiner that dies leaves its number to the next one; rank 0 says so. */
static void a_dead_joiner_frees_its_number(void **state)
{
    (void)state;
    begin(TCP, 3);
    pid_t dead[2] = { doomed(1, 3), 0 };
    pthread_t killer;
    starts_fill(starts, 3, options, 10000);
    atomic_store(&killed, 0);
    starts[1].gate = starts[2].gate = &killed;
    starts[1].delay_ms = starts[2].delay_ms = 50;
    pthread_create(&killer, NULL, kill_both, dead);
    starts_run(starts, 3);
    pthread_join(killer, NULL);
    starts_check(starts, 3);
    assert_int_equal(log_count("went away before the world was complete"), 1);
    assert_int_equal(log_count(NULL), 1);
    starts_end(starts, 3);
    end();
}

/* ------------------------------------------------------------------- files */

static void write_file(const void *bytes, size_t size, int flags)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static void somebody_elses_file_is_left_alone(void **state)
{
    (void)state;
    static const char text[] = "Dear diary, today nothing crashed.";
    char now[sizeof text] = "";
    begin(FILE_WAY, 2);
    write_file(text, sizeof text, O_TRUNC);
    starts_fill(starts, 2, options, 5000);
    starts_run(starts, 2);
    check_all(2, PLAIT_INVALID_ARGUMENT, "holds 35 bytes of something else", 0.5);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, now, sizeof now), sizeof text);
    close(fd);
    assert_string_equal(now, text);
    starts_end(starts, 2);
    end();
}

static void a_torn_file_still_serves(void **state)
{
    (void)state;
    begin(FILE_WAY, 3);
    write_file("\x93PLA", 4, O_TRUNC); /* crashed while writing the header */
    check_next_world(3);
    write_file("\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17torn", 20, O_APPEND); /* ... a record */
    log_capture();
    check_next_world(3);
    assert_in_range(log_count("are no records"), 1, 3);
    log_capture();
    check_next_world(3); /* it was cut off */
    assert_int_equal(log_count(NULL), 0);
    struct stat info;
    assert_int_equal(stat(file, &info), 0);
    assert_int_equal(truncate(file, info.st_size - 700), 0); /* lost its end */
    check_next_world(3);
    end();
}

static void a_file_does_not_grow_for_ever(void **state)
{
    (void)state;
    struct stat info;
    begin(FILE_WAY, 2);
    for (int i = 0; i < 250; i++)
        check_next_world(2);
    assert_int_equal(stat(file, &info), 0);
    assert_in_range(info.st_size, 1, 400000);
    assert_int_equal(info.st_mode & 077, 0);
    end();
}

static void a_removed_file_is_made_anew(void **state)
{
    (void)state;
    begin(FILE_WAY, 3);
    check_next_world(3);
    pid_t dead[2] = { doomed(1, 3), 0 }; /* keeps the old file open */
    nanosleep(&(struct timespec){ 0, 30000000 }, NULL);
    unlink(file);
    fill((int[]){ 0, 2 }, 2, 3, 10000);
    starts[0].delay_ms = 20;
    starts_run(starts, 2);
    assert_int_equal(starts[0].status, PLAIT_OK);
    assert_int_equal(starts[1].status, PLAIT_OK);
    int status;
    assert_int_equal(waitpid(dead[0], &status, 0), dead[0]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    starts_end(starts, 2);
    end();
}

/* ------------------------------------------------------ stores and groups */

static int broken_set(void *context, const char *key, const void *value, size_t size)
{
    (void)context, (void)key, (void)value, (void)size;
    return 5;
}

static int calls;

static int broken_get(void *context, const char *key, void *value, size_t *size, int64_t timeout_ms)
{
    (void)context, (void)key, (void)value, (void)size, (void)timeout_ms;
    calls++;
    return -1; /* at once */
}

/* It does not count: what it says is always the same. */
static int broken_add(void *context, const char *key, int64_t amount, int64_t *result)
{
    (void)context, (void)key, (void)amount;
    *result = 2;
    return 0;
}

static void a_broken_store_fails_the_start(void **state)
{
    (void)state;
    begin(STORE, 2);
    plait_store broken = *store;
    options.store = &broken;
    broken.set = broken_set;
    fill((int[]){ 0 }, 1, 2, 3000);
    starts_run(starts, 1);
    check_all(1, PLAIT_START_FAILED, "could not set the key \"plait/1/open\"", 0.5);
    assert_non_null(strstr(starts[0].sentence, "returned 5"));
    starts_end(starts, 1);
    broken = *store;
    broken.add = broken_add;
    fill((int[]){ 0 }, 1, 2, 3000);
    starts_run(starts, 1);
    check_all(1, PLAIT_START_FAILED, "something else uses it", 0.5);
    starts_end(starts, 1);
    broken = *store;
    broken.get = broken_get;
    fill((int[]){ 1 }, 1, 2, 200);
    starts_run(starts, 1);
    check_all(1, PLAIT_START_FAILED, "rank 1", 0.5);
    assert_in_range(calls, 2, 100); /* and it was not asked in a tight loop */
    starts_end(starts, 1);
    end();
}

/* Rank 0 died between its last word and closing the round, once after a good and once after a failed start. */
static void a_round_left_open(void **state)
{
    (void)state;
    int64_t rounds;
    begin(STORE, 3);
    for (int missing = 0; missing < 2; missing++) {
        fill((int[]){ 0, 1, 2 }, 3 - missing, 3, missing ? 200 : 10000);
        starts_run(starts, 3 - missing);
        assert_int_equal(starts[0].status, missing ? PLAIT_START_FAILED : PLAIT_OK);
        starts_end(starts, 3 - missing);
        assert_int_equal(store->add(store->context, "plait/rounds", -1, &rounds), 0);
        assert_int_equal(rounds % 2, 1);
        starts_fill(starts, 3, options, 10000);
        starts[0].delay_ms = 150;
        starts_run(starts, 3);
        starts_check(starts, 3);
        starts_end(starts, 3);
    }
    end();
}

static void *destroy_group(void *group)
{
    nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
    plait_thread_group_destroy(group);
    return NULL;
}

static void a_group_destroyed_under_a_start(void **state)
{
    (void)state;
    pthread_t thread;
    begin(THREADS, 3);
    fill((int[]){ 0, 1 }, 2, 3, 10000);
    pthread_create(&thread, NULL, destroy_group, options.threads);
    starts_run(starts, 2);
    pthread_join(thread, NULL);
    check_all(2, PLAIT_INVALID_USAGE, "was destroyed", 0.5);
    starts_end(starts, 2);
    options.threads = NULL;
    end();
}

/* ------------------------------------------------------------- descriptors */

/* Rank 0 in a process with few descriptors: it says so, and the others hear it. */
static void no_descriptors_left(void **state)
{
    (void)state;
    begin(TCP, 16);
    pid_t pid = fork();
    if (pid == 0) {
        struct card card = { { 0 } }, cards[16];
        struct bootstrap_result result;
        struct rlimit limit = { (rlim_t)open_descriptors() + 6, (rlim_t)open_descriptors() + 6 };
        setrlimit(RLIMIT_NOFILE, &limit);
        options.size = 16;
        options.deadline = deadline_after_ms(10000);
        plait_status status = bootstrap_exchange(&options, &card, cards, &result);
        _exit(status == PLAIT_OUT_OF_RESOURCES && strstr(plait_last_error(), "ulimit -n") != NULL ? 0 : 1);
    }
    static int ranks[15];
    for (int i = 0; i < 15; i++)
        ranks[i] = i + 1;
    fill(ranks, 15, 16, 1500);
    starts_run(starts, 15);
    int told = 0, status;
    for (int i = 0; i < 15; i++) {
        assert_int_not_equal(starts[i].status, PLAIT_OK);
        told += starts[i].status == PLAIT_OUT_OF_RESOURCES && strstr(starts[i].sentence, "ulimit -n") != NULL;
    }
    assert_in_range(told, 3, 15); /* those it had a descriptor for */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    starts_end(starts, 15);
    end();
}

static void no_descriptor_for_a_joiner(void **state)
{
    (void)state;
    struct rlimit limit, none;
    begin(TCP, 2);
    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){ 3, limit.rlim_max };
    fill((int[]){ 1 }, 1, 2, 3000);
    setrlimit(RLIMIT_NOFILE, &none);
    starts_run(starts, 1);
    setrlimit(RLIMIT_NOFILE, &limit);
    check_all(1, PLAIT_OUT_OF_RESOURCES, "can't open a socket", 0.5);
    starts_end(starts, 1);
    end();
}

static const struct {
    const char *name;
    CMUnitTestFunction test;
    bool ways[WAYS]; /* all false: once, with no way given */
} rows[] = {
    { "missing ranks are named", missing_ranks_are_named, { 1, 1, 1, 1 } },
    { "a missing rank 0 is named", missing_leader_is_named, { 1, 1, 1, 1 } },
    { "a late duplicate hears who has its number", late_duplicate_hears_who_has_its_number, { 1, 1, 1, 1 } },
    { "the earliest deadline counts", earliest_deadline_counts, { 1, 1, 1, 1 } },
    { "two processes with one number", two_with_one_number, { 1, 1, 1, 1 } },
    { "two at once", two_at_once, { 1, 1, 1, 1 } },
    { "two processes that are rank 0", two_leaders, { 1, 1, 1, 1 } },
    { "another size", another_size, { 1, 1, 1, 1 } },
    { "another job key", another_key, { 1, 1, 1, 1 } },
    { "dead ones are replaced", dead_ones_are_replaced, { 0, 0, 1, 1 } },
    { "a crashed run confuses nobody", a_crashed_run_confuses_nobody, { 0, 0, 1, 1 } },
    { "a dead joiner frees its number", a_dead_joiner_frees_its_number, { 0 } },
    { "somebody else's file is left alone", somebody_elses_file_is_left_alone, { 0 } },
    { "a torn file still serves", a_torn_file_still_serves, { 0 } },
    { "a file does not grow for ever", a_file_does_not_grow_for_ever, { 0 } },
    { "a removed file is made anew", a_removed_file_is_made_anew, { 0 } },
    { "a broken store fails the start", a_broken_store_fails_the_start, { 0 } },
    { "a round left open", a_round_left_open, { 0 } },
    { "a group destroyed under a start", a_group_destroyed_under_a_start, { 0 } },
    { "no descriptors left for rank 0", no_descriptors_left, { 0 } },
    { "no descriptor for a joiner", no_descriptor_for_a_joiner, { 0 } },
};

int main(void)
{
    static struct CMUnitTest tests[LENGTH(rows) * WAYS];
    static char names[LENGTH(rows) * WAYS][80];
    static enum way ways[WAYS] = { THREADS, STORE, FILE_WAY, TCP };
    size_t count = 0;
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    for (size_t i = 0; i < LENGTH(rows); i++) {
        bool once = true;
        for (int way = 0; way < WAYS; way++) {
            if (!rows[i].ways[way])
                continue;
            once = false;
            snprintf(names[count], sizeof names[count], "%s, %s", way_names[way], rows[i].name);
            tests[count] = (struct CMUnitTest){ .name = names[count],
                                                .test_func = rows[i].test,
                                                .initial_state = &ways[way] };
            count++;
        }
        if (once)
            tests[count++] = (struct CMUnitTest){ .name = rows[i].name, .test_func = rows[i].test };
    }
    return check_run("bootstrap faults", tests, count);
}

/* Ranks find each other: every way, several sizes, one world after another. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap_ranks.h"
#include "check.h"

enum way { THREADS, STORE, FILE_WAY, TCP };

struct world_case {
    const char *name;
    enum way way;
    int size;
    int worlds;    /* one after another over the same store, file, group or port */
    int slow_rank; /* starts `slow_ms` after the others */
    int slow_ms;
    const char *job_key;
    const char *address; /* TCP; NULL: 127.0.0.1 */
} cases[] = {
    { "threads, one rank", THREADS, 1, 2, 0, 0, NULL, NULL },
    { "threads, two ranks, three worlds", THREADS, 2, 3, 0, 0, NULL, NULL },
    { "threads, 8 ranks, three worlds", THREADS, 8, 3, 0, 0, NULL, NULL },
    { "threads, 33 ranks, two worlds", THREADS, 33, 2, 0, 0, NULL, NULL },
    { "threads, rank 0 last", THREADS, 3, 2, 0, 80, NULL, NULL },
    { "threads, rank 2 last", THREADS, 3, 2, 2, 80, NULL, NULL },
    { "store, one rank", STORE, 1, 1, 0, 0, NULL, NULL },
    { "store, two ranks, three worlds", STORE, 2, 3, 0, 0, NULL, NULL },
    { "store, 8 ranks, three worlds", STORE, 8, 3, 0, 0, NULL, NULL },
    { "store, rank 0 last", STORE, 3, 3, 0, 80, NULL, NULL },
    { "store, with a job key", STORE, 3, 2, 0, 0, "sesame", NULL },
    { "file, one rank", FILE_WAY, 1, 1, 0, 0, NULL, NULL },
    { "file, two ranks, three worlds", FILE_WAY, 2, 3, 0, 0, NULL, NULL },
    { "file, 8 ranks, three worlds", FILE_WAY, 8, 3, 0, 0, NULL, NULL },
    { "file, rank 0 last", FILE_WAY, 3, 3, 0, 80, NULL, NULL },
    { "file, with a job key", FILE_WAY, 3, 2, 1, 20, "sesame", NULL },
    { "tcp, one rank", TCP, 1, 1, 0, 0, NULL, NULL },
    { "tcp, two ranks, three worlds", TCP, 2, 3, 0, 0, NULL, NULL },
    { "tcp, three ranks", TCP, 3, 1, 0, 0, NULL, NULL },
    { "tcp, 8 ranks, three worlds", TCP, 8, 3, 0, 0, NULL, NULL },
    { "tcp, 33 ranks", TCP, 33, 1, 0, 0, NULL, NULL },
    { "tcp, rank 0 last", TCP, 3, 2, 0, 120, NULL, NULL },
    { "tcp, rank 2 last", TCP, 3, 1, 2, 120, NULL, NULL },
    { "tcp, with a job key", TCP, 3, 2, 0, 0, "sesame", NULL },
    { "tcp, a name with several addresses", TCP, 3, 1, 0, 0, NULL, "localhost" },
    { "tcp, IPv6", TCP, 3, 1, 0, 0, NULL, "::1" },
    { "tcp, all addresses", TCP, 3, 1, 0, 0, NULL, "0.0.0.0" },
};

static void ranks_meet(void **state)
{
    const struct world_case *world = *state;
    static struct start starts[START_RANKS_MAX];
    struct bootstrap_options options = { .job_key = world->job_key };
    char file[64] = "";
    plait_store *store = NULL;
    if (world->job_key != NULL)
        options.job_key_size = strlen(world->job_key);
    if (world->way == THREADS)
        assert_int_equal(plait_thread_group_create(world->size, &options.threads), PLAIT_OK);
    if (world->way == STORE)
        options.store = store = test_store_create();
    if (world->way == FILE_WAY) {
        snprintf(file, sizeof file, "/tmp/plait-test-%d", (int)getpid());
        unlink(file);
        options.file = file;
    }
    if (world->way == TCP) {
        options.address = world->address != NULL ? world->address : "127.0.0.1";
        options.port = free_port();
    }

    uint64_t generations[8] = { 0 };
    int before = open_descriptors();
    log_capture();
    for (int i = 0; i < world->worlds; i++) {
        starts_fill(starts, world->size, options, 10000);
        starts[world->slow_rank].delay_ms = world->slow_ms;
        starts_run(starts, world->size);
        starts_check(starts, world->size);
        generations[i] = starts[0].result.generation;
        for (int j = 0; j < i; j++)
            assert_true(generations[j] != generations[i]);
        starts_end(starts, world->size);
    }
    assert_int_equal(log_count(NULL), 0);
    log_release();
    assert_int_equal(open_descriptors(), before);

    plait_thread_group_destroy(options.threads);
    if (store != NULL)
        test_store_destroy(store);
    if (file[0] != '\0')
        unlink(file);
}

static bool has_ipv6(void)
{
    FILE *file = fopen("/proc/net/if_inet6", "r");
    char line[128];
    bool found = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL)
        fclose(file);
    return found;
}

/* Can this machine carry out the row? Bare ones know no localhost. */
static bool can_run(const struct world_case *world)
{
    struct addrinfo *found = NULL;
    if (world->address == NULL)
        return true;
    if (strcmp(world->address, "::1") == 0)
        return has_ipv6();
    bool known = getaddrinfo(world->address, NULL, NULL, &found) == 0;
    if (known)
        freeaddrinfo(found);
    return known;
}

/* Wrong options are answered at once. */
static void options_are_checked(void **state)
{
    (void)state;
    struct card card = { { 0 } }, cards[4];
    struct bootstrap_result result;
    plait_thread_group *group = NULL;
    assert_int_equal(plait_thread_group_create(0, &group), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_thread_group_create(1025, &group), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_thread_group_create(2, NULL), PLAIT_INVALID_ARGUMENT);
    plait_thread_group_destroy(NULL);
    assert_int_equal(plait_thread_group_create(2, &group), PLAIT_OK);

    const struct {
        struct bootstrap_options options;
        plait_status status;
        const char *sentence;
    } wrong[] = {
        { { .rank = 0, .size = 0 }, PLAIT_INVALID_ARGUMENT, "a world of 0 ranks" },
        { { .rank = 2, .size = 2 }, PLAIT_INVALID_ARGUMENT, "rank 2 of 2" },
        { { .rank = -1, .size = 2 }, PLAIT_INVALID_ARGUMENT, "rank -1 of 2" },
        { { .rank = 0, .size = 2, .job_key_size = 3 }, PLAIT_INVALID_ARGUMENT, "job key" },
        { { .rank = 0, .size = 2 }, PLAIT_INVALID_ARGUMENT, "MASTER_ADDR" },
        { { .rank = 0, .size = 2, .address = "127.0.0.1" }, PLAIT_INVALID_ARGUMENT, "port is 0" },
        { { .rank = 0, .size = 2, .address = "127.0.0.1", .port = 65536 },
          PLAIT_INVALID_ARGUMENT,
          "port is 65536" },
        { { .rank = 0, .size = 3, .threads = group }, PLAIT_INVALID_ARGUMENT, "made for 2 ranks" },
        { { .rank = 0, .size = 2, .threads = (void *)&card },
          PLAIT_INVALID_USAGE,
          "not a living thread group" },
        { { .rank = 0, .size = 2, .store = &(plait_store){ 0 } }, PLAIT_INVALID_ARGUMENT, "lacks set" },
        { { .rank = 0, .size = 2, .file = "" }, PLAIT_INVALID_ARGUMENT, "empty name" },
        { { .rank = 0, .size = 2, .file = "/no/such/place" }, PLAIT_INVALID_ARGUMENT, "/no/such/place" },
        { { .rank = 0, .size = 2, .file = "/tmp" }, PLAIT_INVALID_ARGUMENT, "/tmp" },
        { { .rank = 0, .size = 2, .file = "/dev/null" }, PLAIT_INVALID_ARGUMENT, "not a regular file" },
    };
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        assert_int_equal(bootstrap_exchange(&wrong[i].options, &card, cards, &result), wrong[i].status);
        assert_non_null(strstr(plait_last_error(), wrong[i].sentence));
    }
    plait_thread_group_destroy(group);
    plait_thread_group_destroy(group); /* twice is harmless */
    assert_int_equal(
        bootstrap_exchange(&(struct bootstrap_options){ .size = 2, .threads = group }, &card, cards, &result),
        PLAIT_INVALID_USAGE);
}

int main(void)
{
    struct CMUnitTest tests[LENGTH(cases) + 1];
    size_t count = 0;
    for (size_t i = 0; i < LENGTH(cases); i++)
        if (can_run(&cases[i]))
            tests[count++] = (struct CMUnitTest){ .name = cases[i].name,
                                                  .test_func = ranks_meet,
                                                  .initial_state = &cases[i] };
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(options_are_checked);
    return check_run("bootstrap", tests, count);
}

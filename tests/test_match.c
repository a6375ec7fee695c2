/* Matching without a transport: messages are handed in by hand, in any order. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "transport/match.h"

enum { WORLD = 4 };

/* What met, in order. */
struct meetings {
    struct message *messages[16];
    int count;
};

static void note_meeting(void *context, struct message *message)
{
    struct meetings *meetings = context;
    meetings->messages[meetings->count++] = message;
}

struct setting {
    struct match match;
    struct meetings meetings;
};

static int open_setting(void **state)
{
    struct setting *setting = calloc(1, sizeof *setting);
    *state = setting;
    return match_open(&setting->match, WORLD, note_meeting, &setting->meetings) == PLAIT_OK ? 0 : -1;
}

static int close_setting(void **state)
{
    struct setting *setting = *state;
    for (int i = 0; i < setting->meetings.count; i++)
        free(setting->meetings.messages[i]);
    match_close(&setting->match);
    free(setting);
    return 0;
}

static struct transfer receive_of(int peer, struct message_key key, void *data, size_t size)
{
    return (
        struct transfer){ .peer = peer, .key = key, .data = data, .size = size, .status = PLAIT_IN_PROGRESS };
}

static struct message_key collectives(uint64_t operation, uint64_t place)
{
    return (struct message_key){ 7, operation, place };
}

static struct message_key callers(uint64_t tag, uint64_t number)
{
    return (struct message_key){ CONTEXT_CALLERS | 7, tag, number };
}

static void arrive(struct match *match, int source, struct message_key key, char value)
{
    assert_int_equal(match_arrive(match, source, &key, &value, 1), ARRIVAL_TAKEN);
}

static void only_the_exact_key_matches(void **state)
{
    struct match *match = &((struct setting *)*state)->match;
    char got[6] = { 0 };
    struct transfer receives[] = {
        receive_of(1, collectives(5, 5), &got[0], 1),
        receive_of(2, collectives(5, 5), &got[1], 1),
        receive_of(1, collectives(5, 6), &got[2], 1),
        receive_of(1, collectives(6, 5), &got[3], 1),
        receive_of(1, (struct message_key){ 8, 5, 5 }, &got[4], 1),
        receive_of(1, (struct message_key){ CONTEXT_CALLERS | 7, 5, 5 }, &got[5], 1),
    };
    for (size_t i = 0; i < LENGTH(receives); i++)
        match_post(match, &receives[i]);
    arrive(match, 3, collectives(5, 5), 'x'); /* nobody's */
    arrive(match, 1, collectives(5, 5), 'a');
    for (size_t i = 0; i < LENGTH(receives); i++)
        assert_int_equal(receives[i].status, i == 0 ? PLAIT_OK : PLAIT_IN_PROGRESS);
    assert_int_equal(got[0], 'a');
    assert_int_equal(receives[0].source, 1);
    arrive(match, 1, collectives(6, 5), 'd');
    assert_int_equal(got[3], 'd');
    for (size_t i = 1; i < LENGTH(receives); i++)
        assert_int_equal(match_unpost(match, &receives[i]), i != 3);
}

/* All orders in which four messages of one sender can come, over two tags. */
static void overtaken_messages_are_put_in_order(void **state)
{
    struct match *match = &((struct setting *)*state)->match;
    uint64_t base = 0;
    for (int order = 0; order < 24; order++) {
        int left[] = { 0, 1, 2, 3 }, code = order;
        char got[4] = { 0 };
        struct transfer receives[4];
        for (unsigned i = 0; i < 4; i++) { /* half are posted before, half after */
            receives[i] = receive_of(i % 2 ? PLAIT_ANY_SOURCE : 2, callers(i % 2, 0), &got[i], 1);
            if (i < 2)
                match_post(match, &receives[i]);
        }
        for (int n = 4; n > 0; code /= n, n--) {
            int pick = left[code % n];
            left[code % n] = left[n - 1];
            arrive(match, 2, callers((uint64_t)pick % 2, base + (uint64_t)pick), (char)('a' + pick));
        }
        match_post(match, &receives[2]);
        match_post(match, &receives[3]);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(receives[i].status, PLAIT_OK);
            assert_int_equal(got[i], 'a' + i);
        }
        base += 4;
    }
}

static void any_source_takes_in_order_of_arrival(void **state)
{
    struct match *match = &((struct setting *)*state)->match;
    arrive(match, 2, callers(1, 0), 'a');
    arrive(match, 3, callers(1, 0), 'b');
    arrive(match, 1, callers(1, 0), 'c');
    static const int asked[] = { PLAIT_ANY_SOURCE, 1, PLAIT_ANY_SOURCE }, sources[] = { 2, 1, 3 };
    for (int i = 0; i < 3; i++) {
        char got = 0;
        struct transfer receive = receive_of(asked[i], callers(1, 0), &got, 1);
        match_post(match, &receive);
        assert_int_equal(receive.status, PLAIT_OK);
        assert_int_equal(receive.source, sources[i]);
    }
}

static void the_first_posted_that_fits_gets_it(void **state)
{
    struct match *match = &((struct setting *)*state)->match;
    char got[4] = { 0 };
    static const int asked[] = { 3, PLAIT_ANY_SOURCE, 2, PLAIT_ANY_SOURCE };
    struct transfer receives[4];
    for (int i = 0; i < 4; i++) {
        receives[i] = receive_of(asked[i], callers(1, 0), &got[i], 1);
        match_post(match, &receives[i]);
    }
    arrive(match, 2, callers(1, 0), 'a');
    arrive(match, 2, callers(1, 1), 'b');
    arrive(match, 2, callers(1, 2), 'c');
    arrive(match, 3, callers(1, 0), 'd');
    assert_memory_equal(got, "dabc", 4);
}

static void a_number_twice_is_nonsense(void **state)
{
    struct match *match = &((struct setting *)*state)->match;
    struct message_key first = callers(1, 0), third = callers(1, 2);
    char value = 1;
    arrive(match, 1, first, 1);
    assert_int_equal(match_arrive(match, 1, &first, &value, 1), ARRIVAL_NONSENSE);
    arrive(match, 1, third, 1);
    assert_int_equal(match_arrive(match, 1, &third, &value, 1), ARRIVAL_NONSENSE);
    assert_int_equal(match_announce(match, 1, &third, 100, 1), ARRIVAL_NONSENSE);
    arrive(match, 2, first, 1); /* another sender's first */
}

static void numbers_count_for_each_peer(void **state)
{
    struct match *match = &((struct setting *)*state)->match;
    struct message_key key = callers(1, 99), other = collectives(1, 99);
    for (uint64_t i = 0; i < 3; i++) {
        match_number(match, 1, &key);
        assert_int_equal(key.place, i);
    }
    match_number(match, 2, &key);
    assert_int_equal(key.place, 0);
    match_number(match, 1, &other);
    assert_int_equal(other.place, 99);
}

static void sizes_and_room(void **state)
{
    struct match *match = &((struct setting *)*state)->match;
    static const size_t sizes[] = { 0, 1, 1000 }, rooms[] = { 0, 1, 999, 1000, 2000 };
    char from[1000], to[2000];
    memset(from, 'x', sizeof from);
    for (size_t i = 0; i < LENGTH(sizes) * LENGTH(rooms) * 2; i++) {
        size_t size = sizes[i % LENGTH(sizes)], space = rooms[i / LENGTH(sizes) % LENGTH(rooms)];
        bool post_first = i < LENGTH(sizes) * LENGTH(rooms);
        struct message_key key = collectives(i, 0);
        struct transfer receive = receive_of(1, key, space > 0 ? to : NULL, space);
        memset(to, '.', sizeof to);
        if (post_first)
            match_post(match, &receive);
        assert_int_equal(match_arrive(match, 1, &key, size > 0 ? from : NULL, size), ARRIVAL_TAKEN);
        if (!post_first)
            match_post(match, &receive);
        assert_int_equal(receive.status, size > space ? PLAIT_TRUNCATED : PLAIT_OK);
        assert_int_equal(receive.moved, size);
        for (size_t k = 0; k < sizeof to; k++)
            assert_int_equal(to[k], k < size && size <= space ? 'x' : '.');
    }
}

static void announcements_meet_receives(void **state)
{
    struct setting *setting = *state;
    struct match *match = &setting->match;
    struct message_key first = callers(1, 0), second = callers(1, 1), third = callers(1, 2);
    char got = 0;
    struct transfer receives[3];
    for (int i = 0; i < 3; i++)
        receives[i] = receive_of(PLAIT_ANY_SOURCE, callers(1, 0), &got, 1);
    match_post(match, &receives[0]);
    assert_int_equal(match_announce(match, 2, &second, 5000, 71), ARRIVAL_TAKEN);
    assert_int_equal(setting->meetings.count, 0);
    assert_int_equal(match_announce(match, 2, &first, 6000, 70), ARRIVAL_TAKEN);
    match_post(match, &receives[1]);
    arrive(match, 2, third, 'c');
    match_post(match, &receives[2]);
    assert_int_equal(setting->meetings.count, 2);
    assert_ptr_equal(setting->meetings.messages[0]->receive, &receives[0]);
    assert_int_equal(setting->meetings.messages[0]->id, 70);
    assert_int_equal(setting->meetings.messages[0]->size, 6000);
    assert_ptr_equal(setting->meetings.messages[1]->receive, &receives[1]);
    assert_int_equal(setting->meetings.messages[1]->id, 71);
    assert_int_equal(receives[0].source, 2);
    assert_int_equal(receives[0].status, PLAIT_IN_PROGRESS); /* the transport settles it */
    assert_int_equal(receives[2].status, PLAIT_OK);
}

static void withdrawn_announcements_are_forgotten(void **state)
{
    struct setting *setting = *state;
    struct match *match = &setting->match;
    struct message_key keys[] = { callers(1, 0), callers(1, 1), callers(1, 2), callers(1, 3) };
    char got = 0;
    assert_int_equal(match_announce(match, 1, &keys[0], 9000, 50), ARRIVAL_TAKEN);
    assert_int_equal(match_announce(match, 1, &keys[2], 9000, 52), ARRIVAL_TAKEN); /* overtook */
    assert_true(match_withdraw(match, 1, 50));
    assert_false(match_withdraw(match, 1, 50));
    assert_false(match_withdraw(match, 2, 52));
    assert_true(match_withdraw(match, 1, 52));
    arrive(match, 1, keys[1], 'b');
    arrive(match, 1, keys[3], 'd'); /* its turn comes though number 2 was withdrawn */
    for (int i = 0; i < 2; i++) {
        struct transfer receive = receive_of(1, callers(1, 0), &got, 1);
        match_post(match, &receive);
        assert_int_equal(receive.status, PLAIT_OK);
        assert_int_equal(got, i == 0 ? 'b' : 'd');
    }
    assert_int_equal(setting->meetings.count, 0);
}

static void a_lost_peer_takes_its_receives_along(void **state)
{
    struct match *match = &((struct setting *)*state)->match;
    char got = 0;
    struct message_key key = callers(9, 0), large = callers(9, 1);
    struct transfer from_lost = receive_of(1, collectives(1, 1), &got, 1);
    struct transfer callers_from_lost = receive_of(1, callers(1, 0), &got, 1);
    struct transfer from_other = receive_of(2, collectives(1, 1), &got, 1);
    struct transfer from_any = receive_of(PLAIT_ANY_SOURCE, callers(1, 0), &got, 1);
    match_post(match, &from_lost);
    match_post(match, &callers_from_lost);
    match_post(match, &from_other);
    match_post(match, &from_any);
    arrive(match, 1, key, 'k'); /* came whole: it can still be received */
    assert_int_equal(match_announce(match, 1, &large, 9000, 1), ARRIVAL_TAKEN);
    match_lose(match, 1);
    assert_int_equal(from_lost.status, PLAIT_PEER_LOST);
    assert_int_equal(callers_from_lost.status, PLAIT_PEER_LOST);
    assert_int_equal(from_other.status, PLAIT_IN_PROGRESS);
    assert_int_equal(from_any.status, PLAIT_IN_PROGRESS);
    assert_false(match_withdraw(match, 1, 1));
    struct transfer receive = receive_of(1, callers(9, 0), &got, 1);
    match_post(match, &receive);
    assert_int_equal(receive.status, PLAIT_OK);
    arrive(match, 2, collectives(1, 1), 'o');
    arrive(match, 3, callers(1, 0), 'n');
    assert_int_equal(from_other.status, PLAIT_OK);
    assert_int_equal(from_any.status, PLAIT_OK);
}

/* Against a list that is searched from the front: ranks, keys and times drawn at random. */
static void ten_thousand_random_messages(void **state)
{
    enum { MESSAGES = 10000 };
    struct match *match = &((struct setting *)*state)->match;
    struct transfer *receives = calloc(MESSAGES, sizeof *receives);
    int *got = malloc(MESSAGES * sizeof *got), *order = malloc(MESSAGES * sizeof *order);
    unsigned seed = 12345;
    for (int i = 0; i < MESSAGES; i++)
        order[i] = i;
    for (int i = MESSAGES - 1; i > 0; i--) {
        seed = seed * 1664525 + 1013904223;
        int other = (int)(seed >> 8) % (i + 1), swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
    int posted = 0, arrived = 0;
    while (posted < MESSAGES || arrived < MESSAGES) {
        seed = seed * 1664525 + 1013904223;
        if (posted < MESSAGES && (arrived == MESSAGES || seed >> 31)) {
            int i = posted++;
            receives[i] =
                receive_of(i % WORLD, collectives((uint64_t)i / 8, (uint64_t)i % 8), &got[i], sizeof *got);
            match_post(match, &receives[i]);
        } else {
            int i = order[arrived++];
            struct message_key key = collectives((uint64_t)i / 8, (uint64_t)i % 8);
            assert_int_equal(match_arrive(match, i % WORLD, &key, &i, sizeof i), ARRIVAL_TAKEN);
        }
    }
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_equal(receives[i].status, PLAIT_OK);
        assert_int_equal(got[i], i);
    }
    free(receives);
    free(got);
    free(order);
}

#define SETTING_TEST(function) cmocka_unit_test_setup_teardown(function, open_setting, close_setting)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SETTING_TEST(sizes_and_room),
        SETTING_TEST(only_the_exact_key_matches),
        SETTING_TEST(overtaken_messages_are_put_in_order),
        SETTING_TEST(any_source_takes_in_order_of_arrival),
        SETTING_TEST(the_first_posted_that_fits_gets_it),
        SETTING_TEST(a_number_twice_is_nonsense),
        SETTING_TEST(numbers_count_for_each_peer),
        SETTING_TEST(announcements_meet_receives),
        SETTING_TEST(withdrawn_announcements_are_forgotten),
        SETTING_TEST(a_lost_peer_takes_its_receives_along),
        SETTING_TEST(ten_thousand_random_messages),
    };
    return cmocka_run_group_tests_name("match", tests, NULL, NULL);
}

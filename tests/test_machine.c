/* What the machine looks like, and how many cores ranks have between them. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "topology/machine.h"

static int bits_of(const struct machine *machine)
{
    int bits = 0;
    for (int i = 0; i < MACHINE_CORE_WORDS; i++)
        bits += __builtin_popcountll(machine->cores[i]);
    return bits;
}

static void this_machine_makes_sense(void **state)
{
    (void)state;
    struct machine machine = machine_look(), again = machine_look();
    assert_in_range(machine.l2_bytes, 1 << 10, 1 << 30);
    assert_true(machine.quota >= 0);
    assert_in_range(machine_core_count(machine.cores, machine.quota), 1, 65536);
    assert_in_range(strlen(machine.host_name), 1, HOST_NAME_BYTES - 1);
    assert_in_range(strlen(machine.host_id), 8, HOST_ID_BYTES - 1);
    assert_string_equal(machine.host_id, again.host_id);
}

static void *look_on_one_core(void *result)
{
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed)) {
            CPU_SET(core, &one);
            break;
        }
    }
    sched_setaffinity(0, sizeof one, &one);
    *(struct machine *)result = machine_look();
    return NULL;
}

static void affinity_is_heeded(void **state)
{
    (void)state;
    struct machine machine;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look_on_one_core, &machine), 0);
    pthread_join(thread, NULL);
    assert_int_equal(bits_of(&machine), 1);
    assert_int_equal(machine_core_count(machine.cores, 0), 1);
}

static const struct {
    uint64_t first, last;
    int quota, wanted; /* 0: whatever, but not none */
} counts[] = {
    { 0, 0, 0, 0 },
    { 0, 0, 3, 0 },
    { 1, 0, 0, 1 },
    { 0xf, 0, 0, 4 },
    { 0xf, 0, 2, 2 },
    { 0xf, 0, 9, 4 },
    { 0, 1, 0, 1 },
    { ~UINT64_C(0), 3, 0, 66 },
    { ~UINT64_C(0), 3, 65, 65 },
};

static void cores_are_counted(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(counts); i++) {
        uint64_t cores[MACHINE_CORE_WORDS] = { counts[i].first };
        cores[MACHINE_CORE_WORDS - 1] |= counts[i].last;
        int count = machine_core_count(cores, counts[i].quota);
        assert_true(count >= 1);
        if (counts[i].wanted > 0)
            assert_int_equal(count, counts[i].wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_machine_makes_sense),
        cmocka_unit_test(affinity_is_heeded),
        cmocka_unit_test(cores_are_counted),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}

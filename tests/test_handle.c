/* Handles: what was never one, what has ended, and what another thread ends. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/handle.h"

static void what_is_no_handle_is_not_found(void **state)
{
    (void)state;
    int local = 0;
    const void *strangers[] = {
        NULL, (void *)1, (void *)3, (void *)-1, (void *)(uintptr_t)UINT64_C(0x123456789abcdef1), &local
    };
    for (size_t i = 0; i < LENGTH(strangers); i++)
        for (int kind = HANDLE_WORLD; kind <= HANDLE_THREADS; kind++) {
            assert_null(handle_find((enum handle_kind)kind, strangers[i]));
            assert_null(handle_hold((enum handle_kind)kind, strangers[i]));
            assert_null(handle_end((enum handle_kind)kind, strangers[i]));
        }
}

static void a_handle_is_of_one_kind_and_ends_once(void **state)
{
    (void)state;
    int object = 0;
    void *handle = handle_new(HANDLE_COMM, &object);
    assert_non_null(handle);
    assert_ptr_equal(handle_find(HANDLE_COMM, handle), &object);
    assert_null(handle_find(HANDLE_WORLD, handle));
    assert_null(handle_end(HANDLE_WORK, handle));
    assert_ptr_equal(handle_end(HANDLE_COMM, handle), &object);
    assert_null(handle_find(HANDLE_COMM, handle));
    assert_null(handle_hold(HANDLE_COMM, handle));
    assert_null(handle_end(HANDLE_COMM, handle));
}

static void a_slot_used_again_gives_another_handle(void **state)
{
    (void)state;
    int object = 0;
    void *first = handle_new(HANDLE_WORK, &object);
    handle_end(HANDLE_WORK, first);
    for (int i = 0; i < 1000; i++) {
        void *next = handle_new(HANDLE_WORK, &object);
        assert_ptr_not_equal(next, first);
        assert_null(handle_find(HANDLE_WORK, first));
        handle_end(HANDLE_WORK, next);
    }
}

/* More than a block of slots at once. */
static void many_live_at_a_time(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    static int objects[MANY];
    static void *handles[MANY];
    for (int i = 0; i < MANY; i++)
        assert_non_null(handles[i] = handle_new(HANDLE_WORK, &objects[i]));
    for (int i = 0; i < MANY; i++)
        assert_ptr_equal(handle_find(HANDLE_WORK, handles[i]), &objects[i]);
    for (int i = 0; i < MANY; i++)
        assert_ptr_equal(handle_end(HANDLE_WORK, handles[i]), &objects[i]);
}

/* ----------------------------------------------------------------- threads */

struct target {
    _Atomic int alive; /* 1 while the object may be used */
    void *_Atomic handle;
    _Atomic int stop, misses, ends;
};

static void *hold_often(void *argument)
{
    struct target *target = argument;
    while (!atomic_load(&target->stop)) {
        void *handle = atomic_load(&target->handle);
        _Atomic int *alive = handle_hold(HANDLE_COMM, handle);
        if (alive == NULL)
            continue;
        if (atomic_load(alive) == 0)
            atomic_fetch_add(&target->misses, 1);
        handle_let_go(handle);
    }
    return NULL;
}

static void an_object_stays_while_it_is_held(void **state)
{
    (void)state;
    struct target target = { 0 };
    pthread_t threads[2];
    for (size_t i = 0; i < LENGTH(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hold_often, &target), 0);
    for (int i = 0; i < 3000; i++) {
        atomic_store(&target.alive, 1);
        void *handle = handle_new(HANDLE_COMM, &target.alive);
        atomic_store(&target.handle, handle);
        assert_ptr_equal(handle_end(HANDLE_COMM, handle), &target.alive);
        atomic_store(&target.alive, 0);
    }
    atomic_store(&target.stop, 1);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(target.misses, 0);
}

static void *end_often(void *argument)
{
    struct target *target = argument;
    while (!atomic_load(&target->stop))
        if (handle_end(HANDLE_COMM, atomic_load(&target->handle)) != NULL)
            atomic_fetch_add(&target->ends, 1);
    return NULL;
}

static void one_of_several_ends_it(void **state)
{
    (void)state;
    struct target target = { 0 };
    pthread_t threads[2];
    for (size_t i = 0; i < LENGTH(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, end_often, &target), 0);
    for (int i = 0; i < 3000; i++) {
        void *handle = handle_new(HANDLE_COMM, &target);
        atomic_store(&target.handle, handle);
        if (handle_end(HANDLE_COMM, handle) != NULL)
            atomic_fetch_add(&target.ends, 1);
    }
    atomic_store(&target.stop, 1);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(target.ends, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_handle_is_not_found),
        cmocka_unit_test(a_handle_is_of_one_kind_and_ends_once),
        cmocka_unit_test(a_slot_used_again_gives_another_handle),
        cmocka_unit_test(many_live_at_a_time),
        cmocka_unit_test(an_object_stays_while_it_is_held),
        cmocka_unit_test(one_of_several_ends_it),
    };
    return cmocka_run_group_tests_name("handle", tests, NULL, NULL);
}

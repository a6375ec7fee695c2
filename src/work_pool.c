#include "work_pool.h"

#include <stdlib.h>

#include "world.h"

enum { KEPT = 1024 }; /* most that lie unused; some 800 bytes each */

struct work_pool {
    pthread_mutex_t lock;
    struct work *unused; /* linked by `next` */
    int kept;
    int users;           /* the world, and works that are out */
    bool closed;         /* the world has ended */
    unsigned fork_count; /* when it was made: a child of a fork leaves the lock alone */
};

struct work_pool *work_pool_make(void)
{
    struct work_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pool->users = 1;
    pool->fork_count = world_fork_count();
    return pool;
}

static void free_work(struct work *work)
{
    pthread_mutex_destroy(&work->lock);
    free(work->layout);
    free(work);
}

/* Ends one use of the pool, whose lock is held; the last one frees it. */
static void leave(struct work_pool *pool)
{
    bool last = --pool->users == 0;
    pthread_mutex_unlock(&pool->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void work_pool_close(struct work_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->closed = true;
    while (pool->unused != NULL) {
        struct work *work = pool->unused;
        pool->unused = work->next;
        free_work(work);
    }
    leave(pool);
}

static struct work *make_work(void)
{
    struct work *work = malloc(sizeof *work);
    if (work == NULL)
        return NULL;
    pthread_mutex_init(&work->lock, NULL);
    work->layout = NULL;
    work->layout_room = 0;
    return work;
}

struct work *work_pool_take(struct work_pool *pool)
{
    struct work *work = NULL;
    if (pool != NULL) {
        pthread_mutex_lock(&pool->lock);
        work = pool->unused;
        if (work != NULL) {
            pool->unused = work->next;
            pool->kept--;
        }
        pool->users++;
        pthread_mutex_unlock(&pool->lock);
    }
    if (work == NULL)
        work = make_work();
    if (work != NULL) {
        work->pool = pool;
    } else if (pool != NULL) {
        pthread_mutex_lock(&pool->lock);
        leave(pool);
    }
    return work;
}

void work_pool_give(struct work *work)
{
    struct work_pool *pool = work->pool;
    if (pool == NULL || pool->fork_count != world_fork_count()) {
        free_work(work);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    bool keep = !pool->closed && pool->kept < KEPT;
    if (keep) {
        work->next = pool->unused;
        pool->unused = work;
        pool->kept++;
    }
    leave(pool);
    if (!keep)
        free_work(work);
}

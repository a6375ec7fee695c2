/* A store in a file that all ranks can lock, on one host or over NFS.
 *
 * Each process reads the log of records (file_log.h) up to where it knows it, under
 * a lock, and keeps what it read. flock() and not fcntl(): its locks belong to the
 * open file, so ranks that are threads lock each other out as well, they end
 * with a process that dies, and Linux turns them into byte-range locks over NFS. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/file_log.h"
#include "bootstrap/store_view.h"

enum { REWRITE_BYTES = 256 * 1024, FILE_BYTES_MAX = 1 << 30 };

struct file_store {
    char *path;
    int fd;
    int64_t deadline; /* for locking; of the whole exchange */
    uint64_t epoch;   /* of what was read */
    size_t known;     /* bytes of the file that are in the map, header included; 0: none */
    struct key_map map;
    bool warned;
};

static void pause_us(int64_t *pause, int64_t longest)
{
    nanosleep(&(struct timespec){ 0, (long)(*pause * 1000) }, NULL);
    *pause = *pause * 2 < longest ? *pause * 2 : longest;
}

/* ------------------------------------------------------------------- file */

static plait_status open_file(struct file_store *store)
{
    /* O_NONBLOCK so that a pipe of that name can't hang us. 0600: it may hold what joins the world. */
    store->fd = open(store->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (store->fd < 0)
        return failure_errno(
            errno == EMFILE || errno == ENFILE ? PLAIT_OUT_OF_RESOURCES : PLAIT_INVALID_ARGUMENT, errno,
            "the file \"%s\" by which ranks find each other can't be opened", store->path);
    struct stat info;
    if (fstat(store->fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(store->fd);
        store->fd = -1;
        return failure(PLAIT_INVALID_ARGUMENT,
                       "\"%s\", by which ranks find each other, is not a regular file", store->path);
    }
    return PLAIT_OK;
}

static void forget_all(struct file_store *store)
{
    key_map_forget(&store->map, NULL, NULL);
    store->known = 0;
}

static plait_status lock_file(struct file_store *store, int how)
{
    int64_t pause = 100, start = clock_ns();
    while (flock(store->fd, how | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return failure_errno(PLAIT_SYSTEM_ERROR, errno, "the file \"%s\" can't be locked", store->path);
        /* At the deadline a lock that is only busy still gets its moment. */
        if (deadline_passed(store->deadline) && clock_ns() - start > 200000000)
            return failure(PLAIT_START_FAILED,
                           "the file \"%s\" has been locked by another process for %.1f s", store->path,
                           (double)(clock_ns() - start) / 1e9);
        pause_us(&pause, 2000);
    }
    return PLAIT_OK;
}

static void unlock_file(struct file_store *store)
{
    flock(store->fd, LOCK_UN);
}

/* Locks the file that has the path now: somebody may have removed the one we had open. */
static plait_status lock_current(struct file_store *store, int how)
{
    for (int tries = 0; tries < 100; tries++) {
        plait_status status = store->fd < 0 ? open_file(store) : PLAIT_OK;
        if (status == PLAIT_OK)
            status = lock_file(store, how);
        if (status != PLAIT_OK)
            return status;
        struct stat ours, theirs;
        if (fstat(store->fd, &ours) == 0 && stat(store->path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
            ours.st_dev == theirs.st_dev)
            return PLAIT_OK;
        close(store->fd); /* unlocks it */
        store->fd = -1;
        forget_all(store);
    }
    return failure(PLAIT_START_FAILED, "the file \"%s\" is removed again and again", store->path);
}

/* Reads all of `size` bytes at `at`, or as many as there are. */
static plait_status read_at(struct file_store *store, unsigned char *bytes, size_t *size, size_t at)
{
    size_t done = 0;
    while (done < *size) {
        ssize_t got = pread(store->fd, bytes + done, *size - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return failure_errno(PLAIT_SYSTEM_ERROR, errno, "the file \"%s\" can't be read", store->path);
        if (got == 0)
            break;
        done += (size_t)got;
    }
    *size = done;
    return PLAIT_OK;
}

static plait_status write_at(struct file_store *store, const unsigned char *bytes, size_t size, size_t at)
{
    size_t done = 0;
    while (done < size) {
        ssize_t put = pwrite(store->fd, bytes + done, size - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            int error = put < 0 ? errno : EIO;
            if (ftruncate(store->fd, (off_t)at) != 0)
                log_debug("the file \"%s\" keeps a record that was cut short", store->path);
            return failure_errno(PLAIT_SYSTEM_ERROR, error, "%zu bytes can't be written to the file \"%s\"",
                                 size, store->path);
        }
        done += (size_t)put;
    }
    return PLAIT_OK;
}

/* ---------------------------------------------------------------- content */

static plait_status foreign_file(struct file_store *store, size_t size)
{
    return failure(PLAIT_INVALID_ARGUMENT,
                   "the file \"%s\", by which ranks should find each other, holds %zu bytes of "
                   "something else; it was left alone: name another one",
                   store->path, size);
}

/* Checks the header; starts over when the file was rewritten. Sets *empty for a file without a header. */
static plait_status read_header(struct file_store *store, size_t file_size, bool *empty)
{
    unsigned char header[LOG_HEADER_BYTES];
    size_t size = sizeof header;
    uint64_t epoch = 0;
    plait_status status = read_at(store, header, &size, 0);
    if (status != PLAIT_OK)
        return status;
    enum log_check check = log_check_header(header, size, &epoch);
    if (check == LOG_FOREIGN)
        return foreign_file(store, file_size);
    *empty = check == LOG_EMPTY;
    if (*empty || epoch != store->epoch || file_size < store->known)
        forget_all(store);
    if (!*empty && store->known == 0) {
        store->epoch = epoch;
        store->known = LOG_HEADER_BYTES;
    }
    return PLAIT_OK;
}

/* Takes in what others have added. With the lock held. */
static plait_status catch_up(struct file_store *store, bool *empty)
{
    struct stat info;
    if (fstat(store->fd, &info) != 0)
        return failure_errno(PLAIT_SYSTEM_ERROR, errno, "the file \"%s\" can't be looked at", store->path);
    if (info.st_size > FILE_BYTES_MAX)
        return foreign_file(store, (size_t)info.st_size);
    size_t file_size = (size_t)info.st_size;
    plait_status status = read_header(store, file_size, empty);
    if (status != PLAIT_OK || *empty || file_size <= store->known)
        return status;

    size_t size = file_size - store->known;
    unsigned char *bytes = malloc(size);
    if (bytes == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %zu bytes of the file \"%s\"", size, store->path);
    status = read_at(store, bytes, &size, store->known);
    size_t used = status == PLAIT_OK ? log_apply(bytes, size, &store->map) : 0;
    free(bytes);
    if (status == PLAIT_OK && used == SIZE_MAX) {
        forget_all(store);
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the keys in the file \"%s\"", store->path);
    }
    store->known += used;
    if (used < size && !store->warned) {
        store->warned = true;
        log_warn("the file \"%s\" ends in %zu bytes that are no records; they are passed over", store->path,
                 size - used);
    }
    return status;
}

/* Writes the map as the whole file. With the exclusive lock held. A crash between the two steps
 * leaves an empty file or a shorter log, and rank 0 begins its round anew in either. */
static plait_status rewrite(struct file_store *store)
{
    uint64_t epoch;
    randombytes_buf(&epoch, sizeof epoch);
    size_t size;
    unsigned char *bytes = log_of_map(&store->map, epoch, &size);
    if (bytes == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory to write the file \"%s\"", store->path);
    plait_status status = PLAIT_OK;
    if (ftruncate(store->fd, 0) != 0)
        status = failure_errno(PLAIT_SYSTEM_ERROR, errno, "the file \"%s\" can't be cut", store->path);
    if (status == PLAIT_OK)
        status = write_at(store, bytes, size, 0);
    free(bytes);
    store->epoch = epoch;
    store->known = status == PLAIT_OK ? size : 0;
    return status;
}

/* Locks for writing, with the map as the file is and the file as it should be. */
static plait_status begin_write(struct file_store *store)
{
    bool empty;
    plait_status status = lock_current(store, LOCK_EX);
    if (status != PLAIT_OK)
        return status;
    status = catch_up(store, &empty);
    if (status == PLAIT_OK && empty)
        status = rewrite(store);
    if (status != PLAIT_OK)
        unlock_file(store);
    return status;
}

/* Adds a record, over whatever a dead writer left behind the last good one. */
static plait_status append(struct file_store *store, enum log_kind kind, const char *key, const void *value,
                           size_t size)
{
    size_t record_size = log_record_size(strlen(key), size);
    unsigned char *record = size <= LOG_VALUE_MAX ? malloc(record_size) : NULL;
    if (record == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %zu bytes under the key \"%s\"", size, key);
    plait_status status = PLAIT_OK;
    log_put_record(record, kind, key, value, size);
    if (ftruncate(store->fd, (off_t)store->known) != 0)
        status = failure_errno(PLAIT_SYSTEM_ERROR, errno, "the file \"%s\" can't be cut", store->path);
    if (status == PLAIT_OK)
        status = write_at(store, record, record_size, store->known);
    free(record);
    return status;
}

/* ------------------------------------------------------------------- view */

static plait_status set(void *context, const char *key, const void *value, size_t size)
{
    struct file_store *store = context;
    plait_status status = begin_write(store);
    if (status != PLAIT_OK)
        return status;
    status = append(store, LOG_VALUE, key, value, size);
    unlock_file(store);
    return status;
}

static int64_t count_of(const struct file_store *store, const char *key)
{
    const struct key_entry *entry = key_map_find(&store->map, key, strlen(key));
    return entry != NULL ? entry->count : 0;
}

static plait_status add(void *context, const char *key, int64_t amount, int64_t *sum)
{
    struct file_store *store = context;
    bool empty;
    plait_status status = amount != 0 ? begin_write(store) : lock_current(store, LOCK_SH);
    if (status != PLAIT_OK)
        return status;
    if (amount == 0)
        status = catch_up(store, &empty);
    *sum = (int64_t)((uint64_t)count_of(store, key) + (uint64_t)amount);
    if (status == PLAIT_OK && amount != 0) {
        unsigned char bytes[8];
        log_put_number(bytes, (uint64_t)*sum);
        status = append(store, LOG_COUNT, key, bytes, sizeof bytes);
    }
    unlock_file(store);
    return status;
}

static plait_status get(void *context, const char *key, void *value, size_t *size, int64_t deadline)
{
    struct file_store *store = context;
    for (int64_t pause = 250;; pause_us(&pause, 4000)) {
        bool empty, last = deadline_passed(deadline);
        plait_status status = lock_current(store, LOCK_SH);
        if (status != PLAIT_OK)
            return status;
        status = catch_up(store, &empty);
        unlock_file(store);
        if (status != PLAIT_OK)
            return status;
        const struct key_entry *entry = key_map_find(&store->map, key, strlen(key));
        if (entry != NULL && entry->value != NULL) {
            memcpy(value, entry->value, entry->size < *size ? entry->size : *size);
            *size = entry->size;
            return PLAIT_OK;
        }
        if (last)
            return PLAIT_IN_PROGRESS;
    }
}

/* Only when the file has grown: rewriting has its price, and so has a log of a thousand worlds. */
static plait_status forget(void *context, int (*stale)(const char *key, const void *what), const void *what)
{
    struct file_store *store = context;
    plait_status status = begin_write(store);
    if (status != PLAIT_OK)
        return status;
    if (store->known > REWRITE_BYTES) {
        key_map_forget(&store->map, stale, what);
        status = rewrite(store);
    }
    unlock_file(store);
    return status;
}

struct store_view file_store_view(struct file_store *store)
{
    return (struct store_view){ .context = store, .set = set, .get = get, .add = add, .forget = forget };
}

plait_status file_store_open(const char *path, int64_t deadline, struct file_store **store)
{
    if (path[0] == '\0')
        return failure(PLAIT_INVALID_ARGUMENT, "the file by which ranks find each other has an empty name");
    struct file_store *fresh = calloc(1, sizeof *fresh);
    char *copy = strdup(path);
    if (fresh == NULL || copy == NULL) {
        free(fresh);
        free(copy);
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a file store");
    }
    fresh->path = copy;
    fresh->fd = -1;
    fresh->deadline = deadline;
    plait_status status = begin_write(fresh); /* so that a file that is none of ours shows now */
    if (status != PLAIT_OK) {
        file_store_close(fresh);
        return status;
    }
    unlock_file(fresh);
    *store = fresh;
    return PLAIT_OK;
}

void file_store_close(struct file_store *store)
{
    if (store == NULL)
        return;
    if (store->fd >= 0)
        close(store->fd);
    forget_all(store);
    free(store->path);
    free(store);
}

static plait_status meet(struct exchange *exchange)
{
    struct file_store *store = NULL;
    plait_status status = file_store_open(exchange->options->file, exchange->options->deadline, &store);
    if (status != PLAIT_OK)
        return status;
    struct store_view view = file_store_view(store);
    status = store_exchange(exchange, &view);
    file_store_close(store);
    return status;
}

const struct bootstrap_way way_file = { "file", meet };

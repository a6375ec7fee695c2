#include "world.h"

#include <cstring>
#include <thread>

#include "failure.h"
#include "gil.h"

namespace plait_torch {

/* A c10d store behind the four functions that plait.h asks for. */
struct StoreContext {
    c10d::Store &store;
    std::string trouble; /* what the store's latest exception said */
};

/* Gives 0 if `call` does what was asked, or 1. Exceptions must not pass through C. */
template <typename Call> static int guarded(void *context, Call call)
{
    auto *self = static_cast<StoreContext *>(context);
    try {
        return call(self->store) ? 0 : 1;
    } catch (const c10::Error &error) {
        self->trouble = error.what_without_backtrace();
    } catch (const std::exception &error) {
        self->trouble = error.what();
    }
    return 1;
}

static int store_set(void *context, const char *key, const void *value, size_t size)
{
    return guarded(context, [&](c10d::Store &store) {
        const auto *bytes = static_cast<const uint8_t *>(value);
        store.set(key, std::vector<uint8_t>(bytes, bytes + size));
        return true;
    });
}

/* Asks until the key is there: a TCPStore whose wait() runs out logs a warning, and short waits do all the time. */
static bool wait_for(c10d::Store &store, const char *key, int64_t timeout_ms)
{
    using clock = std::chrono::steady_clock;
    constexpr std::chrono::microseconds longest(10000);
    auto deadline = clock::now() + std::chrono::milliseconds(timeout_ms);
    for (std::chrono::microseconds pause(100); !store.check({key}); pause = std::min(2 * pause, longest)) {
        if (clock::now() >= deadline)
            return false;
        std::this_thread::sleep_for(pause);
    }
    return true;
}

static int store_get(void *context, const char *key, void *value, size_t *size, int64_t timeout_ms)
{
    return guarded(context, [&](c10d::Store &store) {
        if (!wait_for(store, key, timeout_ms))
            return false;
        std::vector<uint8_t> found = store.get(key);
        if (!found.empty())
            std::memcpy(value, found.data(), std::min(*size, found.size()));
        *size = found.size();
        return true;
    });
}

static int store_add(void *context, const char *key, int64_t amount, int64_t *result)
{
    return guarded(context, [&](c10d::Store &store) {
        *result = store.add(key, amount);
        return true;
    });
}

static int store_wait(void *context, const char *key, int64_t timeout_ms)
{
    return guarded(context, [&](c10d::Store &store) { return wait_for(store, key, timeout_ms); });
}

World::~World()
{
    GilReleased released; /* destroying waits for threads that may need it */
    plait_world_destroy(handle);
}

int64_t deadline_ms(std::chrono::milliseconds timeout)
{
    bool none = timeout.count() <= 0 || timeout == std::chrono::milliseconds::max();
    return none ? -1 : static_cast<int64_t>(timeout.count());
}

std::shared_ptr<World> world_create(c10d::Store &c10d_store, int rank, int size, std::chrono::milliseconds timeout)
{
    StoreContext context{c10d_store, ""};
    plait_store store = {};
    store.struct_size = sizeof store;
    store.context = &context;
    store.set = store_set;
    store.get = store_get;
    store.add = store_add;
    store.wait = store_wait;

    plait_world_options options = {};
    options.struct_size = sizeof options;
    options.rank = rank;
    options.size = size;
    options.store = &store;
    options.timeout_ms = deadline_ms(timeout);
    options.start_timeout_ms = timeout.count() > 0 ? static_cast<int64_t>(timeout.count()) : 0;

    plait_world *world = nullptr;
    plait_status status = plait_world_create(&options, &world);
    if (status != PLAIT_OK)
        throw_failure(status, c10::str("plait: rank ", rank, " of ", size, " could not join its world",
                                       ": ", plait_last_error(), " [", plait_status_name(status), "]",
                                       context.trouble.empty() ? "" : "; the store said: ", context.trouble));
    return std::make_shared<World>(world);
}

} // namespace plait_torch

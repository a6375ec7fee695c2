#include "process_group.h"

#include <set>

#include "gil.h"
#include "world.h"

namespace plait_torch {

using c10d::OpType;

/* ---------------------------------------------------------- coming and going */

/* The groups that live. Never freed: torch's registry lets go of groups after this file's statics are gone. */
struct Living {
    std::mutex mutex;
    std::set<ProcessGroupPlait *> groups;
};

static Living &living()
{
    static Living *all = new Living;
    return *all;
}

ProcessGroupPlait::ProcessGroupPlait(std::shared_ptr<World> world, plait_comm *comm, bool owns_comm,
                                     milliseconds timeout, const std::string &name)
    : Backend(plait_comm_rank(comm), plait_comm_size(comm)), world_(std::move(world)), owns_comm_(owns_comm),
      options_(c10::make_intrusive<OptionsPlait>(timeout)), home_(std::make_shared<Home>())
{
    home_->place = std::make_shared<std::string>(c10::str("rank ", rank_, " of ", size_, " of group ", name));
    home_->comm = comm;
    options_->group_name = name;
    for (int rank = 0; rank < size_; rank++)
        options_->global_ranks_in_group.push_back(static_cast<uint64_t>(plait_comm_world_rank(comm, rank)));
    init();
    std::lock_guard<std::mutex> lock(living().mutex);
    living().groups.insert(this);
}

ProcessGroupPlait::~ProcessGroupPlait()
{
    {
        std::lock_guard<std::mutex> lock(living().mutex);
        living().groups.erase(this);
    }
    shutdown();
}

void ProcessGroupPlait::shutdown_all()
{
    std::lock_guard<std::mutex> lock(living().mutex);
    for (ProcessGroupPlait *group : living().groups)
        group->shutdown();
}

c10::intrusive_ptr<ProcessGroupPlait> ProcessGroupPlait::create(const c10::intrusive_ptr<c10d::Store> &store,
                                                                int rank, int size, milliseconds timeout,
                                                                const std::string &name)
{
    std::shared_ptr<World> world = world_create(*store, rank, size, timeout);
    plait_comm *comm = plait_world_comm(world->handle);
    return c10::make_intrusive<ProcessGroupPlait>(std::move(world), comm, false, timeout, name);
}

void ProcessGroupPlait::shutdown()
{
    if (home_->comm == nullptr)
        return;
    GilReleased released; /* destroying waits for threads that may need it */
    std::shared_ptr<World> world;
    plait_comm *comm;
    {
        std::lock_guard<std::mutex> lock(call_mutex_);
        comm = home_->comm.exchange(nullptr);
        world.swap(world_);
    }
    if (owns_comm_)
        plait_comm_destroy(comm);
}

void ProcessGroupPlait::abort()
{
    plait_comm *comm = home_->comm; /* not under the lock: this must get through to whoever holds it */
    if (comm == nullptr)
        return;
#ifdef C10D_BACKEND_HAS_HOOKS
    std::unique_lock<std::mutex> lock(hook_mutex_);
    auto hooks = abort_hooks_;
    lock.unlock();
    for (auto &[id, hook] : hooks)
        hook();
#endif
    plait_comm_abort(comm, "the process group's abort() was called");
}

/* --------------------------------------------------------- small questions */

std::string ProcessGroupPlait::last_plan() const
{
    plait_comm *comm = home_->comm;
    const char *plan = comm != nullptr ? plait_comm_last_plan(comm) : nullptr;
    return plan != nullptr ? plan : "";
}

void ProcessGroupPlait::setTimeout(milliseconds timeout)
{
    std::lock_guard<std::mutex> lock(call_mutex_);
    plait_status status = plait_comm_set_timeout(home_->comm, deadline_ms(timeout));
    if (status != PLAIT_OK)
        throw_failure(status, nullptr, "plait:set_timeout", home_->place);
    options_->timeout = timeout;
}

void ProcessGroupPlait::setSequenceNumberForGroup()
{
    /* Every rank counts from 0, so there is nothing to agree on. */
}

uint64_t ProcessGroupPlait::getSequenceNumberForGroup()
{
    return sequence_;
}

c10d::ErrorType ProcessGroupPlait::getError()
{
    plait_fault fault = {};
    fault.struct_size = sizeof fault;
    plait_comm *comm = home_->comm;
    if (comm == nullptr || plait_comm_fault(comm, &fault) != PLAIT_OK || fault.kind == PLAIT_FAULT_NONE ||
        plait_status_remedy(fault.status) == PLAIT_REMEDY_GO_ON)
        return c10d::ErrorType::SUCCESS;
    if (fault.status == PLAIT_TIMED_OUT)
        return c10d::ErrorType::TIMEOUT;
    return fault.status == PLAIT_PEER_LOST ? c10d::ErrorType::REMOTE_ERROR : c10d::ErrorType::COMM_ERROR;
}

/* ------------------------------------------------------------------- hooks */

void ProcessGroupPlait::registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)> &&hook)
{
    TORCH_CHECK(!home_->hooked, "plait: a process group takes one completion hook, and this one has one already");
    TORCH_CHECK_VALUE(hook != nullptr, "plait: the completion hook is empty");
    home_->hook = hook;
    onCompletionHook_ = std::move(hook); /* what hasHooks() asks */
    home_->hooked = true;
}

void ProcessGroupPlait::waitForPendingWorks()
{
    GilReleased released; /* the hook may be python's */
    std::unique_lock<std::mutex> lock(home_->mutex);
    home_->all_done.wait(lock, [this] { return home_->pending == 0; });
}

void ProcessGroupPlait::enableCollectivesTiming()
{
    /* Works are timed in any case. */
}

#ifdef C10D_BACKEND_HAS_HOOKS
void ProcessGroupPlait::registerAbortHook(int64_t id, c10d::AbortHook hook)
{
    std::lock_guard<std::mutex> lock(hook_mutex_);
    abort_hooks_[id] = std::move(hook);
}

void ProcessGroupPlait::unregisterAbortHook(int64_t id)
{
    std::lock_guard<std::mutex> lock(hook_mutex_);
    abort_hooks_.erase(id);
}
#endif

} // namespace plait_torch

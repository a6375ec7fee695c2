#include <Python.h>

#include "process_group.h"

#include <set>

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

/* Lets other python threads run while this one waits; a no-op without the GIL. */
class GilReleased {
  public:
    GilReleased() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr)
    {
    }
    ~GilReleased()
    {
        if (state_ != nullptr)
            PyEval_RestoreThread(state_);
    }
    GilReleased(const GilReleased &) = delete;
    GilReleased &operator=(const GilReleased &) = delete;

  private:
    PyThreadState *const state_;
};

ProcessGroupPlait::ProcessGroupPlait(std::shared_ptr<World> world, plait_comm *comm, bool owns_comm,
                                     milliseconds timeout, const std::string &name)
    : Backend(plait_comm_rank(comm), plait_comm_size(comm)), world_(std::move(world)), comm_(comm),
      owns_comm_(owns_comm), options_(c10::make_intrusive<OptionsPlait>(timeout)),
      place_(std::make_shared<std::string>(c10::str("rank ", rank_, " of ", size_, " of group ", name)))
{
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

/* Members agree on a tag because they agree on the name (FNV-1a, folded to 31 bits). */
static int tag_of(const std::string &name)
{
    uint64_t hash = 14695981039346656037u;
    for (unsigned char letter : name)
        hash = (hash ^ letter) * 1099511628211u;
    return static_cast<int>((hash ^ (hash >> 31)) & INT32_MAX);
}

c10::intrusive_ptr<ProcessGroupPlait> ProcessGroupPlait::group(const std::vector<int> &ranks, milliseconds timeout,
                                                               const std::string &name)
{
    plait_comm_options options = {};
    options.struct_size = sizeof options;
    options.timeout_ms = deadline_ms(timeout);
    options.name = name.c_str();

    std::lock_guard<std::mutex> lock(call_mutex_);
    plait_comm *comm = nullptr;
    plait_status status =
        plait_comm_group(comm_, ranks.data(), static_cast<int>(ranks.size()), tag_of(name), &options, &comm);
    if (status != PLAIT_OK)
        throw_failure(status, failure_message(status, nullptr, "plait:new_group", place_));
    return c10::make_intrusive<ProcessGroupPlait>(world_, comm, true, timeout, name);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupPlait::split(const c10::intrusive_ptr<c10d::Store> & /*store*/,
                                                           const std::vector<int> &ranks,
                                                           const c10::intrusive_ptr<Options> &opts)
{
    /* Ranks that are in no group come along with the first one's list. */
    if (std::find(ranks.begin(), ranks.end(), rank_) == ranks.end())
        return nullptr;
    return group(ranks, opts != nullptr ? opts->timeout : options_->timeout,
                 opts != nullptr && !opts->group_name.empty() ? opts->group_name : c10::str(getGroupUid(), ":", ranks));
}

void ProcessGroupPlait::shutdown()
{
    if (comm_ == nullptr)
        return;
    GilReleased released; /* destroying waits for threads that may need it */
    std::shared_ptr<World> world;
    plait_comm *comm;
    {
        std::lock_guard<std::mutex> lock(call_mutex_);
        comm = comm_.exchange(nullptr);
        world.swap(world_);
    }
    if (owns_comm_)
        plait_comm_destroy(comm);
}

void ProcessGroupPlait::abort()
{
    plait_comm *comm = comm_; /* not under the lock: this must get through to whoever holds it */
    if (comm != nullptr)
        plait_comm_abort(comm, "the process group's abort() was called");
}

/* --------------------------------------------------------- small questions */

std::string ProcessGroupPlait::last_plan() const
{
    plait_comm *comm = comm_;
    const char *plan = comm != nullptr ? plait_comm_last_plan(comm) : nullptr;
    return plan != nullptr ? plan : "";
}

void ProcessGroupPlait::setTimeout(milliseconds timeout)
{
    std::lock_guard<std::mutex> lock(call_mutex_);
    plait_status status = plait_comm_set_timeout(comm_, deadline_ms(timeout));
    if (status != PLAIT_OK)
        throw_failure(status, failure_message(status, nullptr, "plait:set_timeout", place_));
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
    plait_comm *comm = comm_;
    if (comm == nullptr || plait_comm_fault(comm, &fault) != PLAIT_OK || fault.kind == PLAIT_FAULT_NONE ||
        plait_status_remedy(fault.status) == PLAIT_REMEDY_GO_ON)
        return c10d::ErrorType::SUCCESS;
    if (fault.status == PLAIT_TIMED_OUT)
        return c10d::ErrorType::TIMEOUT;
    return fault.status == PLAIT_PEER_LOST ? c10d::ErrorType::REMOTE_ERROR : c10d::ErrorType::COMM_ERROR;
}

/* ----------------------------------------------------------------- running */

ProcessGroupPlait::WorkRef ProcessGroupPlait::make_work(OpType type, const char *title, const Tensors &tensors,
                                                        Kind kind)
{
    uint64_t number = kind == Kind::collective ? ++sequence_ : sequence_.load();
    return c10::make_intrusive<WorkPlait>(rank_, type, title, place_, number, tensors);
}

/* A call's own deadline, for as long as it is being started. */
class CallTimeout {
  public:
    CallTimeout(plait_comm *comm, milliseconds call, milliseconds group) : comm_(comm), group_(group)
    {
        if (call.count() > 0 && call != group) {
            plait_comm_set_timeout(comm, deadline_ms(call));
            changed_ = true;
        }
    }
    ~CallTimeout()
    {
        if (changed_)
            plait_comm_set_timeout(comm_, deadline_ms(group_));
    }
    CallTimeout(const CallTimeout &) = delete;
    CallTimeout &operator=(const CallTimeout &) = delete;

  private:
    plait_comm *const comm_;
    const milliseconds group_;
    bool changed_ = false;
};

ProcessGroupPlait::WorkPtr ProcessGroupPlait::run(const WorkRef &work, milliseconds timeout, bool async,
                                                  const std::function<void(plait_comm *)> &start)
{
    {
        std::lock_guard<std::mutex> lock(call_mutex_);
        plait_comm *comm = comm_;
        TORCH_CHECK_WITH(DistBackendError, comm != nullptr, "plait: this process group was shut down (by "
                         "destroy_process_group or at the end of the process); make a new one to go on");
        CallTimeout call_timeout(comm, timeout, options_->timeout);
        try {
            start(comm);
        } catch (...) {
            work->watch(); /* parts that did start use the buffers until they end */
            throw;
        }
    }
    if (async)
        work->watch();
    else
        work->see_through();
    return work;
}

} // namespace plait_torch

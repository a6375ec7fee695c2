/* How calls are started: alone, several together, or left to a batch. */
#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include "process_group.h"
#include "world.h"

namespace plait_torch {

using c10d::OpType;

StartedTogether::StartedTogether()
{
    plait_status status = plait_group_begin();
    if (status != PLAIT_OK)
        throw_failure(status, plait_last_error());
}

plait_status StartedTogether::end()
{
    open_ = false;
    plait_work *all = nullptr;
    plait_status status = plait_group_end(&all);
    plait_work_release(all); /* each call has a work of its own */
    return status;
}

StartedTogether::~StartedTogether()
{
    if (open_)
        end();
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

/* ---------------------------------------------------------------- recording */

/* What tools for traces call the operations. */
static std::string trace_name(OpType type)
{
    switch (type) {
    case OpType::ALLREDUCE:
        return "allreduce";
    case OpType::ALLREDUCE_COALESCED:
        return "allreduce_coalesced";
    case OpType::_ALLREDUCE_SPARSE:
        return "allreduce_sparse";
    case OpType::ALLGATHER:
        return "all_gather";
    case OpType::_ALLGATHER_BASE:
        return "_allgather_base";
    case OpType::REDUCE_SCATTER:
        return "reduce_scatter";
    case OpType::_REDUCE_SCATTER_BASE:
        return "_reduce_scatter_base";
    case OpType::ALLTOALL:
        return "all_to_all";
    case OpType::ALLTOALL_BASE:
        return "all_to_allv";
    default: {
        std::string name = c10d::opTypeToString(type);
        for (char &letter : name)
            letter = static_cast<char>(std::tolower(letter));
        return name;
    }
    }
}

/* The distance between neighbours, or -1 if there are several. */
static int stride_of(const std::vector<uint64_t> &ranks)
{
    for (size_t i = 2; i < ranks.size(); i++)
        if (ranks[i] - ranks[i - 1] != ranks[1] - ranks[0])
            return -1;
    return ranks.size() > 1 ? static_cast<int>(ranks[1]) - static_cast<int>(ranks[0]) : 1;
}

/* start(), with the event record_param_comms round it. */
void ProcessGroupPlait::start_recorded(WorkPlait &work, at::ArrayRef<Call> calls)
{
    const Record &record = *work.record;
    const Tensors &tensors = record.inputs.empty() ? work.outputs : record.inputs;
    const auto &ranks = options_->global_ranks_in_group;
    OpType type = work.retrieveOpType();
    auto number = std::make_tuple(static_cast<int64_t>(work.getSequencenumber()), c10d::isP2POp(type));
    auto name = std::make_tuple(getGroupUid(), getGroupDesc());
    RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(number, name, record.inputs, work.outputs, rank_, trace_name(type),
                                          count_all(record.inputs), count_all(work.outputs),
                                          tensors.empty() ? at::kByte : tensors[0].scalar_type(),
                                          record.input_splits, record.output_splits, static_cast<int>(ranks[0]),
                                          stride_of(ranks), size_, true);
    start(work, calls);
}

/* ----------------------------------------------------------------- starting */

ProcessGroupPlait::WorkRef ProcessGroupPlait::make_work(OpType type, const char *title, const Tensors &inputs,
                                                        Kind kind)
{
    if (Batch *batch = open_batch()) {
        if (batch->work->record != nullptr)
            batch->work->record->inputs.insert(batch->work->record->inputs.end(), inputs.begin(), inputs.end());
        return batch->work;
    }
    uint64_t number = kind == Kind::collective ? ++sequence_ : sequence_.load();
    auto work = c10::make_intrusive<WorkPlait>(rank_, type, title, home_, number, inputs);
    if (C10_UNLIKELY(at::hasCallbacks()))
        work->record = std::make_unique<Record>(Record{inputs, {}, {}});
    return work;
}

/* Nothing of them is started if one is refused. */
void ProcessGroupPlait::start(WorkPlait &work, at::ArrayRef<Call> calls)
{
    std::lock_guard<std::mutex> lock(call_mutex_);
    plait_comm *comm = home_->comm;
    TORCH_CHECK_WITH(DistBackendError, comm != nullptr, "plait: this process group was shut down (by "
                     "destroy_process_group or at the end of the process); make a new one to go on");
    if (calls.size() == 1)
        return start_alone(comm, work, calls[0]);
    StartedTogether together;
    for (const Call &call : calls)
        start_alone(comm, work, call);
    work.check_together(together.end());
}

void ProcessGroupPlait::start_alone(plait_comm *comm, WorkPlait &work, const Call &call)
{
    CallTimeout timeout(comm, call.timeout, options_->timeout);
    call.start(comm, work);
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::run(const WorkRef &work, milliseconds timeout, bool async, Start start_)
{
    if (Batch *batch = open_batch()) {
        batch->calls.push_back({timeout, std::move(start_)});
        return work;
    }
    const Call call{timeout, std::move(start_)};
    if (C10_UNLIKELY(work->record != nullptr))
        start_recorded(*work, call);
    else
        start(*work, call);
    if (async)
        work->watch();
    else
        work->see_through();
    return work;
}

} // namespace plait_torch

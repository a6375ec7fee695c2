#include <Python.h>

#include "work.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <sstream>
#include <thread>

#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace plait_torch {

/* ------------------------------------------------------------- completion */

/*
 * Threads on which python may run. There is always one to spare when work
 * comes: a continuation may wait for a further work's future, as PowerSGD's do.
 */
class Completion {
  public:
    void push(c10::intrusive_ptr<WorkPlait> work)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        queue_.push_back(std::move(work));
        if (queue_.size() > idle_) {
            std::thread([this] { run(); }).detach();
            running_++;
            idle_++;
        }
        wake_.notify_one();
    }

    void stop()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
        /* Bounded: a continuation may be stuck for good, and the process wants to end. */
        ended_.wait_for(lock, std::chrono::seconds(2), [this] { return running_ == 0; });
        stopping_ = false;
    }

    pid_t pid = getpid();

  private:
    void run()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        while (true) {
            wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            if (queue_.empty())
                break;
            c10::intrusive_ptr<WorkPlait> work = std::move(queue_.front());
            queue_.pop_front();
            idle_--;
            lock.unlock();
            work->complete_future();
            work.reset();
            lock.lock();
            idle_++;
        }
        idle_--;
        running_--;
        ended_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable wake_, ended_;
    std::deque<c10::intrusive_ptr<WorkPlait>> queue_;
    size_t idle_ = 0;    /* threads waiting for work, or about to */
    size_t running_ = 0; /* all of them */
    bool stopping_ = false;
};

/* Never freed: its threads may outlive main(). A forked child has none of them and starts afresh. */
static Completion &completion()
{
    static std::mutex mutex;
    static Completion *current = nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    if (current == nullptr || current->pid != getpid())
        current = new Completion;
    return *current;
}

void stop_completion()
{
    completion().stop();
}

/* --------------------------------------------------------------- failures */

static const char *fault_name(plait_fault_kind kind)
{
    switch (kind) {
    case PLAIT_FAULT_DIED:
        return "died";
    case PLAIT_FAULT_LEFT:
        return "left";
    case PLAIT_FAULT_NOT_ENTERED:
        return "has not entered the operation";
    case PLAIT_FAULT_STUCK:
        return "is stuck in the operation";
    case PLAIT_FAULT_MISMATCH:
        return "made another call";
    case PLAIT_FAULT_ABORTED:
        return "aborted";
    default:
        return "";
    }
}

static void describe_fault(std::ostream &text, const plait_fault &fault)
{
    text << "; fault: rank " << fault.culprit;
    if (fault.host[0] != '\0')
        text << " (host " << fault.host << ", pid " << fault.pid << ")";
    text << " " << fault_name(fault.kind);
    if (fault.operation_number != 0)
        text << ", operation " << fault.operation_number << ", " << fault.call;
    if (fault.evidence[0] != '\0')
        text << ", evidence: " << fault.evidence;
}

std::string failure_message(plait_status status, const plait_work *work, const char *title, const Place &place)
{
    std::ostringstream text;
    text << title << ": " << (status == PLAIT_TIMED_OUT ? "Timed out: " : "") << plait_last_error() << " ["
         << plait_status_name(status) << " on " << *place;
    plait_fault fault = {};
    fault.struct_size = sizeof fault;
    if (work != nullptr && plait_work_fault(work, &fault) == PLAIT_OK && fault.kind != PLAIT_FAULT_NONE)
        describe_fault(text, fault);
    text << "]";
    return text.str();
}

void throw_failure(plait_status status, const std::string &message)
{
    if (status == PLAIT_INVALID_ARGUMENT)
        C10_THROW_ERROR(ValueError, message);
    C10_THROW_ERROR(DistBackendError, message);
}

/* ------------------------------------------------------------------ works */

WorkPlait::WorkPlait(int rank, c10d::OpType type, const char *title, Place place, uint64_t number,
                     const std::vector<at::Tensor> &tensors)
    : Work(rank, type, title, tensors), title_(title), place_(std::move(place)), number_(number)
{
}

WorkPlait::~WorkPlait()
{
    for (const Part &part : parts_)
        plait_work_release(part.handle);
}

plait_work **WorkPlait::slot()
{
    parts_.emplace_back();
    return &parts_.back().handle;
}

void WorkPlait::check(plait_status status)
{
    if (status == PLAIT_OK)
        return;
    parts_.pop_back();
    throw_failure(status, failure_message(status, nullptr, title_, place_));
}

void WorkPlait::expect(size_t count)
{
    parts_.back().expected = count;
}

void WorkPlait::watch()
{
    left_ = parts_.size() + 1; /* one for this function, so that parts can't settle it before all are watched */
    for (const Part &part : parts_) {
        c10::intrusive_ptr<WorkPlait> self = c10::intrusive_ptr<WorkPlait>::reclaim_copy(this);
        plait_status status = plait_work_on_done(part.handle, part_done, self.get());
        if (status == PLAIT_OK) {
            self.release(); /* the callback's now */
        } else {
            part_ended(part, status);
            left_--;
        }
    }
    if (--left_ == 0)
        settle();
}

void WorkPlait::part_done(void *context, plait_work *handle, plait_status status)
{
    auto self = c10::intrusive_ptr<WorkPlait>::reclaim(static_cast<WorkPlait *>(context));
    for (const Part &part : self->parts_)
        if (part.handle == handle)
            self->part_ended(part, status);
    if (--self->left_ > 0)
        return; /* another part's callback, or watch()'s caller, holds the work */
    self->settle();
    bool has_future;
    {
        std::lock_guard<std::mutex> lock(self->mutex_);
        has_future = self->future_ != nullptr;
    }
    if (has_future || self.use_count() == 1)
        completion().push(std::move(self));
}

/* As plait_work_wait(), but Ctrl-C and python's other signal handlers, which run on the main thread,
 * are heard meanwhile; what they raise is thrown. */
static plait_status wait_hearing_signals(plait_work *handle, int64_t timeout_ms)
{
    constexpr int64_t slice_ms = 100;
    const bool main_thread = syscall(SYS_gettid) == getpid();
    if (!main_thread || !Py_IsInitialized())
        return plait_work_wait(handle, timeout_ms);
    for (int64_t left_ms = timeout_ms;; left_ms = left_ms < 0 ? left_ms : std::max<int64_t>(0, left_ms - slice_ms)) {
        int64_t turn_ms = left_ms < 0 ? slice_ms : std::min(left_ms, slice_ms);
        plait_status status = plait_work_wait(handle, turn_ms);
        if (status != PLAIT_IN_PROGRESS || left_ms == turn_ms)
            return status;
        pybind11::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0)
            throw pybind11::error_already_set();
    }
}

void WorkPlait::see_through()
{
    try {
        for (const Part &part : parts_)
            wait_hearing_signals(part.handle, -1);
    } catch (...) {
        watch(); /* the operation goes on without its caller */
        throw;
    }
    for (const Part &part : parts_)
        part_ended(part, plait_work_wait(part.handle, -1));
    settle();
    std::exception_ptr failure = exception();
    if (failure)
        std::rethrow_exception(failure);
}

/* Notes how a part went. Parts may end on several threads at once. */
void WorkPlait::part_ended(const Part &part, plait_status status)
{
    if (status != PLAIT_OK) {
        plait_work_status(part.handle); /* makes the work's sentence this thread's */
        fail(status, failure_message(status, part.handle, title_, place_));
        return;
    }
    size_t count = plait_work_count(part.handle);
    if (part.expected != SIZE_MAX && count != part.expected) {
        std::ostringstream text;
        text << title_ << ": a message of " << count << " elements came from rank " << plait_work_source(part.handle)
             << " where this tensor has " << part.expected << "; its first " << count
             << " elements were overwritten [on " << *place_ << "]";
        fail(PLAIT_MISMATCH, text.str());
    }
}

void WorkPlait::fail(plait_status status, const std::string &message)
{
    std::lock_guard<std::mutex> lock(failure_mutex_);
    if (failure_)
        return;
    try {
        throw_failure(status, message);
    } catch (...) {
        failure_ = std::current_exception();
    }
}

/* All parts have ended: outputs, then the work's state, whose waiters wake. */
void WorkPlait::settle() noexcept
{
    try {
        if (!failure_)
            staging.copy_back();
    } catch (...) {
        failure_ = std::current_exception();
    }
    finish(failure_);
}

bool WorkPlait::wait(std::chrono::milliseconds timeout)
{
    auto deadline = std::chrono::steady_clock::now() + timeout;
    for (size_t i = 0; i < parts_.size() && !isCompleted(); i++) {
        int64_t left_ms = -1;
        if (timeout.count() > 0) {
            auto left = deadline - std::chrono::steady_clock::now();
            left_ms = std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(left).count());
        }
        plait_status status = wait_hearing_signals(parts_[i].handle, left_ms);
        if (status == PLAIT_IN_PROGRESS)
            C10_THROW_ERROR(DistBackendError,
                            c10::str(title_, ": Timed out waiting for ", timeout.count(), " ms on ", *place_,
                                     "; the operation goes on and can be waited for again"));
        if (plait_work_status(parts_[i].handle) == PLAIT_IN_PROGRESS) /* a forked child may not wait */
            throw_failure(status, failure_message(status, nullptr, title_, place_));
    }
    std::unique_lock<std::mutex> lock(mutex_);
    cv_.wait(lock, [this] { return completed_; }); /* the callback may be at it on another thread */
    auto future = future_;
    lock.unlock();
    if (future != nullptr) { /* whoever waited for the work finds its future done as well */
        complete_future();
        future->wait();
    }
    if (exception_)
        std::rethrow_exception(exception_);
    return true;
}

std::vector<at::Tensor> WorkPlait::result()
{
    TORCH_CHECK(isCompleted(), title_, ": the result is there when the work is done; call wait() first");
    return outputs;
}

int WorkPlait::sourceRank() const
{
    return parts_.empty() ? -1 : plait_work_source(parts_[0].handle);
}

uint64_t WorkPlait::getSequencenumber() const
{
    return number_;
}

c10::intrusive_ptr<c10::ivalue::Future> WorkPlait::getFuture()
{
    std::unique_lock<std::mutex> lock(mutex_);
    if (future_ != nullptr)
        return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    asker_ = std::make_unique<at::ThreadLocalState>();
    auto future = future_;
    bool completed = completed_;
    lock.unlock();
    if (completed)
        complete_future();
    return future;
}

void WorkPlait::complete_future()
{
    std::unique_lock<std::mutex> lock(mutex_);
    if (future_ == nullptr || future_->completed() || asker_ == nullptr)
        return;
    auto asker = std::move(asker_); /* whoever takes it completes the future */
    auto future = future_;
    auto failure = exception_;
    lock.unlock();
    at::ThreadLocalStateGuard guard(*asker);
    if (failure)
        future->setError(failure);
    else
        future->markCompleted(c10::IValue(outputs));
}

} // namespace plait_torch

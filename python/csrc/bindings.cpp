/* The module plait._C: the process group and its options, as python sees them. */
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "completion.h"
#include "process_group.h"

namespace plait_torch {
namespace {

using Options = ProcessGroupPlait::OptionsPlait;
using OptionsRef = c10::intrusive_ptr<Options>;

OptionsRef copy_options(const Options &options)
{
    return c10::make_intrusive<Options>(options);
}

void end_process()
{
    ProcessGroupPlait::shutdown_all();
    stop_completion();
}

} // namespace

PYBIND11_MODULE(_C, module)
{
    namespace py = pybind11;
    using released = py::call_guard<py::gil_scoped_release>;

    register_failures();

    py::class_<ProcessGroupPlait, c10::intrusive_ptr<ProcessGroupPlait>, c10d::Backend> group(
        module, "ProcessGroupPlait",
        "A torch.distributed backend over plait. Made by init_process_group(\"plait\") and new_group().");
    group.def_static("create", &ProcessGroupPlait::create, py::arg("store"), py::arg("rank"), py::arg("size"),
                     py::arg("timeout"), py::arg("name"), released(),
                     "A group with a world of its own, whose ranks find each other through `store`.");
    group.def("group", &ProcessGroupPlait::group, py::arg("ranks"), py::arg("timeout"), py::arg("name"), released(),
              "A group of some ranks of this one, called by those only; opens no connection.");
    group.def_property_readonly("last_plan", &ProcessGroupPlait::last_plan,
                                "How the latest finished collective was carried out: \"direct one-shot\".");
    group.def_property_readonly("options", &ProcessGroupPlait::getBackendOptions);

    /* split_group() copies the parent's options. */
    py::class_<Options, OptionsRef, c10d::Backend::Options>(group, "Options", "Options of a plait process group.")
        .def(py::init<std::chrono::milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout)
        .def("__copy__", &copy_options)
        .def("__deepcopy__", [](const Options &options, const py::dict &) { return copy_options(options); });

    module.def("end_process", &end_process, released(),
               "Leaves every group and stops the threads that run python. For atexit.");
    module.def("library_version", &plait_version, "The version of libplait that is loaded.");
}

} // namespace plait_torch

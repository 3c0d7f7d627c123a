// hone._hone: libhone for the Python in hone/*.py, which is what people import.
#include "objects.h"

#include <nanobind/stl/string.h>

#include "hone/base/log.h"
#include "hone/base/version.h"

namespace hone::python {
namespace {

// Errors become hone.errors.Error and its kin, which carry what a terminal shows: what was found and expected, and what to do.
void raise_user_error(int code, const std::string& message, const std::string& hint) {
  nb::object made = nb::module_::import_("hone.errors").attr("make_error")(code, message, hint);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& raised, void*) {
    try {
      std::rethrow_exception(raised);
    } catch (const UserError& error) {
      raise_user_error(static_cast<int>(error.code()), error.what(), error.hint());
    } catch (const c10::OutOfMemoryError& error) {
      raise_user_error(static_cast<int>(ExitCode::out_of_memory), error.what_without_backtrace(),
                       "lower the batch size or max_length, or turn gradient_checkpointing on");
    } catch (const c10::Error& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
    }
  });
}

}  // namespace hone::python

NB_MODULE(_hone, m) {
  using namespace hone::python;
  m.doc() = "libhone. Import hone instead.";
  m.def(
      "version", [] { return std::string(hone::version()); }, "The version of libhone.");
  m.def(
      "set_log_level", [](const std::string& level) { hone::log::configure({.level = hone::log::parse_level(level)}); },
      nb::arg("level"), "debug, info, warning, error or off.");
  bind_errors(m);
  bind_hub(m);
  bind_model(m);
  bind_data(m);
  bind_processes(m);
  bind_trainer(m);
  bind_engine(m);
  bind_rewards(m);
}

// SPDX-License-Identifier: MIT
#include "common/module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <vector>

namespace crossflash {
namespace {

namespace fs = std::filesystem;

// Where a module may lie, most wanted first.
std::vector<fs::path> module_folders() {
  std::vector<fs::path> folders;
  if (const char* value = std::getenv("CROSSFLASH_MODULE_PATH"); value != nullptr) {
    const std::string list = value;
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(':', begin), list.size());
      if (end > begin) folders.emplace_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  const auto add = [&](const fs::path& file) {
    const fs::path folder = file.parent_path();
    folders.push_back(folder);
    folders.push_back(folder / CROSSFLASH_MODULE_FOLDER);  // from bin/ to lib/, once installed
  };
  Dl_info self{};  // the library, or the program that it is linked into
  if (dladdr(reinterpret_cast<const void*>(&make_module_backend), &self) != 0) {
    std::error_code error;
    if (const fs::path file = fs::canonical(self.dli_fname, error); !error) add(file);
  }
  std::error_code error;
  if (const fs::path file = fs::read_symlink("/proc/self/exe", error); !error) add(file);
  return folders;
}

Status load(const std::string& name, Backend** out) {
  const std::string file = fmt::format("libcrossflash_{}.so", name);
  for (const fs::path& folder : module_folders()) {
    const fs::path path = folder / file;
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    // Never closed: runtimes of GPU vendors do not survive it.
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) return device_error("{}", dlerror());
    const auto* entry = static_cast<const ModuleEntry*>(dlsym(module, kModuleSymbol));
    if (entry == nullptr || entry->interface != module_interface())
      return device_error("{} belongs to another version of crossflash", path.string());
    *out = entry->backend();
    return {};
  }
  return device_error(
      "{} was not found beside the program; CROSSFLASH_MODULE_PATH may name its folder", file);
}

class ModuleBackend final : public Backend {
 public:
  explicit ModuleBackend(std::string name) : name_(std::move(name)) {}

  const char* name() const override { return name_.c_str(); }

  std::vector<DeviceInfo> devices() override {
    const Status status = connect();
    if (status.ok()) return backend_->devices();
    DeviceInfo none;
    none.backend = name_;
    none.reason = status.text();
    return {none};
  }

  Status open(const DeviceOptions& options, std::unique_ptr<Device>* out) override {
    const Status status = connect();
    if (!status.ok()) return unsupported("backend {}: {}", name_, status.text());
    return backend_->open(options, out);
  }

 private:
  Status connect() {
    std::call_once(once_, [this] { status_ = load(name_, &backend_); });
    return status_;
  }

  const std::string name_;
  std::once_flag once_;
  Status status_;
  Backend* backend_ = nullptr;
};

}  // namespace

std::unique_ptr<Backend> make_module_backend(std::string name) {
  return std::make_unique<ModuleBackend>(std::move(name));
}

}  // namespace crossflash

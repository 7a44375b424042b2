// SPDX-License-Identifier: MIT
// output_set.h: files that appear in a directory together or not at all. Each is written beside its
// place under a temporary name; only when all are complete do they take their names. Whatever
// goes wrong before that (a full disk, an exception, Ctrl-C) leaves the directory as it was.
#pragma once

#include <string>
#include <vector>

#include "tools/npy.h"

namespace crossflash::tool {

class OutputSet {
 public:
  // Makes the directory if it is missing. One OutputSet at a time.
  explicit OutputSet(std::string directory);
  ~OutputSet();
  OutputSet(const OutputSet&) = delete;
  OutputSet& operator=(const OutputSet&) = delete;

  // `name` without a folder.
  void add(const std::string& name, const NpyArray& array);
  // Gives every file its name.
  void commit();

 private:
  struct File {
    std::string temporary, final;
  };

  std::string directory_;
  bool made_directory_ = false, committed_ = false;
  std::vector<File> files_;
};

}  // namespace crossflash::tool

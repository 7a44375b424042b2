// SPDX-License-Identifier: MIT
#include "tools/option_files.h"

#include <algorithm>
#include <cstring>

#include "common/half.h"
#include "tools/exit_code.h"
#include "tools/tensor_file.h"

namespace crossflash::tool {
namespace {

// A file whose axes are (batch, query head, query, key), each as long as the problem's or 1, which
// all share.
NpyArray read_over_scores(const char* name, const std::string& path, NpyKind kind,
                          const crossflash_problem& p) {
  NpyArray array = read_npy(path, kind);
  const std::int64_t extents[4] = {p.batch, p.heads_q, p.seq_q, p.seq_k};
  const char* const axes[4] = {"batch", "heads", "queries", "keys"};
  if (array.shape.size() != 4)
    throw bad_input("{}: has {} dimensions, {}; {} has 4: [batch, heads, queries, keys]", path,
                    array.shape.size(), format_shape(array.shape), name);
  for (std::size_t n = 0; n < 4; ++n)
    if (array.shape[n] != extents[n] && array.shape[n] != 1)
      throw bad_input("{}: {} has {} {}; it must be {}, or 1 for all", path, name, array.shape[n],
                      axes[n], extents[n]);
  return array;
}

// Of a contiguous array with rows of `row` elements: 0 along axes that are shared.
crossflash_score_strides score_strides(const NpyArray& array, const crossflash_problem& p,
                                       std::int64_t row) {
  const std::int64_t extents[4] = {p.batch, p.heads_q, p.seq_q, p.seq_k};
  const std::int64_t sizes[4] = {array.shape[0], array.shape[1], array.shape[2], row};
  std::int64_t strides[4] = {};
  std::int64_t step = 1;
  for (std::size_t n = 4; n-- > 0;) {
    const bool shared = array.shape[n] == 1 && extents[n] != 1;
    strides[n] = shared ? 0 : std::max<std::int64_t>(step, 1);
    step *= sizes[n];
  }
  return {strides[0], strides[1], strides[2], strides[3]};
}

std::vector<std::byte> read_per_head(const char* name, const std::string& path,
                                     const crossflash_problem& p) {
  const NpyArray array = read_npy(path);
  if (array.shape.size() != 1 || array.shape[0] != p.heads_q)
    throw bad_input("{}: has shape {}; {} has one number for each of the {} query heads", path,
                    format_shape(array.shape), name, p.heads_q);
  return convert(array.data, to_dtype(array.type), CROSSFLASH_F32);
}

std::vector<std::int64_t> to_indices(const NpyArray& array) {
  std::vector<std::int64_t> values(array.data.size() / npy_type_size(array.type));
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (array.type == NpyType::i64) {
      std::memcpy(&values[n], array.data.data() + 8 * n, 8);
    } else {
      std::int32_t value = 0;
      std::memcpy(&value, array.data.data() + 4 * n, 4);
      values[n] = value;
    }
  }
  return values;
}

std::vector<std::int64_t> read_indices(const char* name, const std::string& path) {
  const NpyArray array = read_npy(path, NpyKind::indices);
  if (array.shape.size() != 1)
    throw bad_input("{}: has {} dimensions, {}; {} has 1", path, array.shape.size(),
                    format_shape(array.shape), name);
  return to_indices(array);
}

std::vector<std::byte> as_int64(const std::vector<std::int64_t>& values) {
  std::vector<std::byte> data(values.size() * sizeof(std::int64_t));
  if (!data.empty()) std::memcpy(data.data(), values.data(), data.size());
  return data;
}

// Offsets of packed sequences in `total` rows; the longest of them.
std::int64_t check_offsets(const char* name, const std::string& path,
                           const std::vector<std::int64_t>& offsets, std::int64_t total) {
  if (offsets.empty()) throw bad_input("{}: is empty; {} has one more than sequences", path, name);
  std::int64_t longest = 0, before = 0;
  for (std::size_t n = 0; n < offsets.size(); ++n) {
    if (offsets[n] < before || offsets[n] > total)
      throw bad_input("{}: {}[{}] is {}; it must lie between {} and {}, the rows there are", path,
                      name, n, offsets[n], before, total);
    if (n > 0) longest = std::max(longest, offsets[n] - before);
    before = offsets[n];
  }
  return longest;
}

void check_lengths(const char* name, const std::string& path,
                   const std::vector<std::int64_t>& lengths, std::int64_t batch,
                   std::int64_t longest) {
  if (static_cast<std::int64_t>(lengths.size()) != batch)
    throw bad_input("{}: {} has {} lengths; the batch has {} sequences", path, name, lengths.size(),
                    batch);
  for (std::size_t n = 0; n < lengths.size(); ++n)
    if (lengths[n] < 0 || lengths[n] > longest)
      throw bad_input("{}: {}[{}] is {}; it must lie between 0 and {}", path, name, n, lengths[n],
                      longest);
}

// One side of the problem, queries or keys, with what its files say.
struct Side {
  const char *packed_name, *padded_name;
  const std::string &packed, &padded;
  std::int64_t* seq;
  std::int64_t* total;
  crossflash_rows* rows;
};

// Offsets make several sequences of the one batch that the tensors have; returns how many, or -1.
std::int64_t read_offsets(const Side& side, std::vector<std::byte>* data) {
  if (side.packed.empty()) return -1;
  if (!side.padded.empty())
    throw bad_input("--{} and --{} contradict each other: sequences are packed or padded",
                    side.packed_name, side.padded_name);
  const auto offsets = read_indices(side.packed_name, side.packed);
  *side.total = *side.seq;
  *side.seq = check_offsets(side.packed_name, side.packed, offsets, *side.total);
  *side.rows = CROSSFLASH_ROWS_OFFSETS;
  *data = as_int64(offsets);
  return static_cast<std::int64_t>(offsets.size()) - 1;
}

// The lengths, or as many times the longest.
std::vector<std::int64_t> read_lengths(const Side& side, std::int64_t batch,
                                       std::vector<std::byte>* data) {
  if (side.padded.empty())
    return std::vector<std::int64_t>(static_cast<std::size_t>(batch), *side.seq);
  const auto lengths = read_indices(side.padded_name, side.padded);
  check_lengths(side.padded_name, side.padded, lengths, batch, *side.seq);
  *side.rows = CROSSFLASH_ROWS_LENGTHS;
  *data = as_int64(lengths);
  return lengths;
}

// The table as int32. Entries past a sequence's length may be anything.
std::vector<std::byte> check_pages(const std::string& path, const std::vector<std::int64_t>& pages,
                                   const std::vector<std::int64_t>& lengths,
                                   const crossflash_problem& p) {
  std::vector<std::int32_t> table(pages.size());
  const std::size_t row =
      lengths.empty() ? 1 : std::max<std::size_t>(pages.size() / lengths.size(), 1);
  for (std::size_t n = 0; n < pages.size(); ++n) {
    const bool used = static_cast<std::int64_t>(n % row) * p.page_size < lengths[n / row];
    if (!used) continue;
    if (pages[n] < 0 || pages[n] >= p.pages)
      throw bad_input("{}: sequence {} has page {}; k has pages 0 to {}", path, n / row, pages[n],
                      p.pages - 1);
    table[n] = static_cast<std::int32_t>(pages[n]);
  }
  std::vector<std::byte> data(table.size() * sizeof(std::int32_t));
  if (!data.empty()) std::memcpy(data.data(), table.data(), data.size());
  return data;
}

}  // namespace

void OptionFiles::add_to(CLI::App& app) {
  const auto file = [&](const char* name, std::string& path, const char* what) {
    return app.add_option(name, path, what)->type_name("FILE");
  };
  CLI::Option* with_bias =
      file("--bias", bias, "Added to the scores: [batch, heads, queries, keys], 1 where all share");
  app.add_flag("--dbias", grad_bias, "Also write the bias' gradient, dbias.npy")
      ->needs(with_bias)
      ->needs("--do");
  file("--alibi", alibi, "ALiBi slopes [heads]");
  file("--sink", sink, "Logits [heads] that take part in the softmax; with --do also dsink.npy");
  file("--mask", mask,
       "Which elements take part, bool or uint8 [batch, heads, queries, keys], 1 where all share");
  file("--cu-seqlens-q", cu_seqlens_q,
       "Packed queries: where each sequence starts and the last ends");
  file("--cu-seqlens-k", cu_seqlens_k, "The same of keys");
  file("--seqlens-q", seqlens_q, "Padded queries: how many each sequence has");
  file("--seqlens-k", seqlens_k, "The same of keys");
  file("--page-table", page_table,
       "Paged keys [sequences, pages]; k and v are [pages, page size, heads, d]");
}

OptionInputs::OptionInputs(const OptionFiles& files, crossflash_problem* p) {
  // Who the sequences are: packed and paged tensors have no batches of their own.
  const Side queries{"cu-seqlens-q", "seqlens-q", files.cu_seqlens_q, files.seqlens_q,
                     &p->seq_q,      &p->total_q, &p->rows_q};
  const Side keys{"cu-seqlens-k", "seqlens-k", files.cu_seqlens_k, files.seqlens_k,
                  &p->seq_k,      &p->total_k, &p->rows_k};
  p->row_bits = 64;
  if (files.paged() && files.packed_k())
    throw bad_input("--page-table and --cu-seqlens-k contradict each other: pages are not packed");
  const std::int64_t of_q = read_offsets(queries, &rows_q);
  const std::int64_t of_k = read_offsets(keys, &rows_k);
  if (of_q >= 0 && of_k >= 0) p->batch = of_q;
  if (of_q >= 0 && files.paged()) p->batch = of_q;
  for (const auto& [count, path] :
       {std::pair{of_q, &files.cu_seqlens_q}, std::pair{of_k, &files.cu_seqlens_k}})
    if (count >= 0 && count != p->batch)
      throw bad_input("{}: has {} sequences; the other side has {}", *path, count, p->batch);
  std::vector<std::int64_t> pages;
  if (files.paged()) {
    const NpyArray table = read_npy(files.page_table, NpyKind::indices);
    if (table.shape.size() != 2 || table.shape[0] != p->batch)
      throw bad_input("{}: has shape {}; a page table has a row for each of {} sequences",
                      files.page_table, format_shape(table.shape), p->batch);
    p->seq_k = table.shape[1] * p->page_size;
    pages = to_indices(table);
  }
  read_lengths(queries, p->batch, &rows_q);
  const auto lengths = read_lengths(keys, p->batch, &rows_k);
  if (files.paged()) page_table = check_pages(files.page_table, pages, lengths, *p);

  const bool backward = (p->passes & CROSSFLASH_BACKWARD) != 0;
  if (!files.alibi.empty()) {
    alibi = read_per_head("alibi", files.alibi, *p);
    p->alibi = 1;
  }
  if (!files.sink.empty()) {
    sink = read_per_head("sink", files.sink, *p);
    p->sink = backward ? CROSSFLASH_WITH_GRADIENT : CROSSFLASH_GIVEN;
    if (backward) grad_sink = NpyArray{NpyType::f32, {p->heads_q}, {}};
  }
  if (!files.bias.empty()) read_bias(files, p);
  if (!files.mask.empty()) read_mask(files.mask, p);
}

void OptionInputs::read_bias(const OptionFiles& files, crossflash_problem* p) {
  const NpyArray file = read_over_scores("bias", files.bias, NpyKind::floats, *p);
  const crossflash_dtype type = to_dtype(file.type);
  bias_dtype = p->bias_dtype = type == p->dtype ? type : CROSSFLASH_F32;
  bias = convert(file.data, type, bias_dtype);
  p->bias_strides = score_strides(file, *p, file.shape[3]);
  p->bias = files.grad_bias ? CROSSFLASH_WITH_GRADIENT : CROSSFLASH_GIVEN;
  if (files.grad_bias) grad_bias = NpyArray{to_npy_type(bias_dtype), file.shape, {}};
}

void OptionInputs::read_mask(const std::string& path, crossflash_problem* p) {
  const NpyArray file = read_over_scores("mask", path, NpyKind::bits, *p);
  if (file.shape[3] != p->seq_k)
    throw bad_input("{}: mask has {} keys; it must be {}", path, file.shape[3], p->seq_k);
  const std::int64_t words = (p->seq_k + 31) / 32;
  const std::int64_t rows = file.shape[0] * file.shape[1] * file.shape[2];
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(rows * words));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < p->seq_k; ++j)
      if (file.data[static_cast<std::size_t>(r * p->seq_k + j)] != std::byte{0})
        bits[static_cast<std::size_t>(r * words + j / 32)] |= 1u << (j % 32);
  mask.resize(bits.size() * sizeof(std::uint32_t));
  if (!bits.empty()) std::memcpy(mask.data(), bits.data(), mask.size());
  p->mask = 1;
  p->mask_strides = score_strides(file, *p, words);
  p->mask_strides.seq_k = 1;
}

const Buffer& OptionBuffers::add(const Device& device, std::size_t bytes,
                                 crossflash_buffer* where) {
  buffers_.push_back(std::make_unique<Buffer>(device, std::max<std::size_t>(bytes, 1)));
  *where = *buffers_.back();
  return *buffers_.back();
}

OptionBuffers::OptionBuffers(const Device& device, const OptionInputs& inputs,
                             crossflash_args* args)
    : inputs_(inputs) {
  const auto give = [&](const std::vector<std::byte>& data, crossflash_buffer* where) {
    if (data.empty()) return;
    add(device, data.size(), where);
    buffers_.back()->upload(std::span<const std::byte>(data));
  };
  give(inputs.bias, &args->bias);
  give(inputs.alibi, &args->alibi);
  give(inputs.sink, &args->sink);
  give(inputs.mask, &args->mask);
  give(inputs.rows_q, &args->rows_q);
  give(inputs.rows_k, &args->rows_k);
  give(inputs.page_table, &args->page_table);
  if (inputs.grad_bias) grad_bias_ = &add(device, inputs.bias.size(), &args->grad_bias);
  if (inputs.grad_sink) grad_sink_ = &add(device, inputs.sink.size(), &args->grad_sink);
}

std::vector<std::pair<std::string, NpyArray>> OptionBuffers::gradients() const {
  std::vector<std::pair<std::string, NpyArray>> files;
  const auto add = [&](const char* name, const std::optional<NpyArray>& like, const Buffer* buffer,
                       std::size_t bytes, crossflash_dtype dtype) {
    if (!like) return;
    NpyArray array = *like;
    std::vector<std::byte> data;
    if (bytes > 0) data = buffer->download<std::byte>();
    array.data = convert(data, dtype, to_dtype(array.type));
    files.emplace_back(name, std::move(array));
  };
  add("dbias.npy", inputs_.grad_bias, grad_bias_, inputs_.bias.size(), inputs_.bias_dtype);
  add("dsink.npy", inputs_.grad_sink, grad_sink_, inputs_.sink.size(), CROSSFLASH_F32);
  return files;
}

}  // namespace crossflash::tool

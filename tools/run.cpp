// SPDX-License-Identifier: MIT
// run.cpp: `crossflash run`: attention on .npy files. Everything is read and checked before the
// device is opened, and everything is computed before the first output is written.
#include <charconv>
#include <cmath>
#include <optional>

#include "common/half.h"
#include "crossflash/crossflash.hpp"
#include "tools/commands.h"
#include "tools/device_choice.h"
#include "tools/option_files.h"
#include "tools/output_set.h"
#include "tools/table.h"
#include "tools/tensor_file.h"

namespace crossflash::tool {
namespace {

// Words of the command line and what they mean.
template <typename T>
struct Word {
  const char* name;
  T value;
};
constexpr Word<crossflash_causal> kCausal[] = {{"top-left", CROSSFLASH_CAUSAL_TOP_LEFT},
                                               {"bottom-right", CROSSFLASH_CAUSAL_BOTTOM_RIGHT}};
constexpr Word<crossflash_dtype> kTypes[] = {
    {"f32", CROSSFLASH_F32}, {"f16", CROSSFLASH_F16}, {"bf16", CROSSFLASH_BF16}};
constexpr Word<Layout> kLayouts[] = {{"bshd", Layout::bshd}, {"bhsd", Layout::bhsd}};

template <typename T, std::size_t N>
std::vector<std::string> names(const Word<T> (&words)[N]) {
  std::vector<std::string> out;
  for (const Word<T>& word : words) out.emplace_back(word.name);
  return out;
}

// `text` has been checked to be a word, or is empty.
template <typename T, std::size_t N>
T meaning(const Word<T> (&words)[N], const std::string& text, T otherwise) {
  for (const Word<T>& word : words)
    if (text == word.name) return word.value;
  return otherwise;
}

struct Options {
  std::string q, k, v, grad_o, out;
  DeviceChoice device;
  std::optional<float> scale;
  std::string causal, window, type, layout_name = "bshd";
  float dropout = 0, softcap = 0;
  OptionFiles files;
  std::uint64_t seed = 0, offset = 0;
  bool deterministic = false, save_mask = false, json = false;

  Layout layout() const { return meaning(kLayouts, layout_name, Layout::bshd); }
};

struct Inputs {
  TensorFile q, k, v;
  std::optional<TensorFile> grad_o;
};

Inputs read_inputs(const Options& o) {
  Inputs in{read_tensor("q", o.q, o.layout()),
            read_tensor("k", o.k, o.layout()),
            read_tensor("v", o.v, o.layout()),
            {}};
  const bool one_batch = o.files.packed_q() || o.files.packed_k() || o.files.paged();
  check_same(in.k, in.q, {.batch = !one_batch, .seq = false, .heads = false, .width = true});
  check_same(in.v, in.k, {.batch = true, .seq = true, .heads = true, .width = false});
  if (!o.grad_o.empty()) {
    in.grad_o = read_tensor("do", o.grad_o, o.layout());
    check_same(*in.grad_o, in.q, {.batch = true, .seq = true, .heads = true, .width = false});
    check_same(*in.grad_o, in.v, {.batch = false, .seq = false, .heads = false, .width = true});
  }
  if (o.type.empty()) {
    for (const TensorFile* t : {&in.k, &in.v, in.grad_o ? &*in.grad_o : &in.q})
      if (t->type != in.q.type)
        throw bad_input("{}: is {}, but q ({}) is {}; --type says which to compute in", t->path,
                        npy_type_name(t->type), in.q.path, npy_type_name(in.q.type));
  }
  return in;
}

void parse_window(const std::string& text, crossflash_problem* p) {
  std::int64_t sides[2] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 2; ++i) {
    const auto [next, error] = std::from_chars(at, end, sides[i]);
    const bool last = i == 1;
    if (error != std::errc{} || (last ? next != end : next == end || *next != ','))
      throw bad_input("--window is \"{}\"; it is LEFT,RIGHT, two whole numbers, -1 for open", text);
    at = next + (last ? 0 : 1);
  }
  p->window_left = sides[0];
  p->window_right = sides[1];
}

// Tensors of packed sequences have one batch, of which the offsets make several.
void check_packed(bool packed, const TensorFile& tensor, const char* option) {
  if (packed && tensor.batch != 1)
    throw bad_input("{}: {} has batch {}; with --{} it must be 1", tensor.path, tensor.name,
                    tensor.batch, option);
}

crossflash_problem make_problem(const Options& o, const Inputs& in) {
  crossflash_problem p;
  crossflash_problem_init(&p);
  p.passes = CROSSFLASH_FORWARD;
  if (in.grad_o) p.passes |= CROSSFLASH_BACKWARD;
  p.dtype = meaning(kTypes, o.type, to_dtype(in.q.type));
  check_packed(o.files.packed_q(), in.q, "cu-seqlens-q");
  check_packed(o.files.packed_k(), in.k, "cu-seqlens-k");
  p.batch = o.files.packed_q() ? in.k.batch : in.q.batch;  // where neither says, the options do
  if (o.files.paged()) {
    p.pages = in.k.batch;
    p.page_size = in.k.seq;
  }
  p.seq_q = in.q.seq;
  p.seq_k = in.k.seq;
  p.heads_q = in.q.heads;
  p.heads_kv = in.k.heads;
  p.d = in.q.width;
  p.d_v = in.v.width;
  TensorFile out = in.q;
  out.heads = p.heads_q;
  out.width = p.d_v;
  p.q = p.grad_q = strides_of(in.q, o.layout());
  p.k = p.grad_k = strides_of(in.k, o.layout());
  p.v = p.grad_v = strides_of(in.v, o.layout());
  p.o = p.grad_o = strides_of(out, o.layout());
  if (o.scale && !std::isfinite(*o.scale))
    throw bad_input("--scale is {}; it is a finite number", *o.scale);
  if (o.scale) p.scale = *o.scale;
  p.causal = meaning(kCausal, o.causal, CROSSFLASH_NOT_CAUSAL);
  if (!o.window.empty()) parse_window(o.window, &p);
  p.dropout = o.dropout;
  p.softcap = o.softcap;
  p.deterministic = o.deterministic ? 1 : 0;
  return p;
}

Buffer make_buffer(const Device& device, std::size_t bytes) {
  return bytes == 0 ? Buffer() : Buffer(device, bytes);
}

// Rows of no sequence are not written by anybody: they are 0 in the files.
Buffer make_output(const Device& device, std::size_t bytes) {
  Buffer buffer = make_buffer(device, bytes);
  const std::vector<std::byte> zeros(bytes);
  if (bytes > 0) buffer.upload(std::span<const std::byte>(zeros));
  return buffer;
}

Buffer upload(const Device& device, const TensorFile& tensor, crossflash_dtype dtype) {
  const std::vector<std::byte> data = convert(tensor.data, to_dtype(tensor.type), dtype);
  Buffer buffer = make_buffer(device, data.size());
  if (!data.empty()) buffer.upload(std::span<const std::byte>(data));
  return buffer;
}

struct Result {
  std::string describe, device;
  std::vector<std::pair<std::string, NpyArray>> files;
};

NpyArray download(const Buffer& buffer, std::vector<std::int64_t> shape, crossflash_dtype dtype) {
  std::vector<std::byte> data;
  if (buffer.bytes() > 0) data = buffer.download<std::byte>();
  const NpyType type = to_npy_type(dtype);
  return {type, std::move(shape), convert(data, dtype, to_dtype(type))};
}

Result compute(const Options& o, const crossflash_problem& p, const Inputs& in,
               const OptionInputs& options) {
  const Device device(o.device.backend, o.device.variant, o.device.limits);
  const Plan plan(device, p);
  const std::size_t element = dtype_size(p.dtype);
  const auto like = [&](const TensorFile& t) {
    return make_output(device, t.data.size() / npy_type_size(t.type) * element);
  };
  const auto rows = static_cast<std::size_t>(in.q.batch * p.heads_q * in.q.seq);
  const Buffer q = upload(device, in.q, p.dtype), k = upload(device, in.k, p.dtype),
               v = upload(device, in.v, p.dtype);
  const Buffer out = make_output(device, rows * static_cast<std::size_t>(p.d_v) * element);
  const Buffer lse = make_output(device, rows * sizeof(float));

  crossflash_args args = make_args();
  args.q = q;
  args.k = k;
  args.v = v;
  args.o = out;
  args.lse = lse;
  args.seed = o.seed;
  args.offset = o.offset;
  const OptionBuffers option_buffers(device, options, &args);
  plan.forward(args);

  Result result{plan.describe(), selector(device.info()), {}};
  const auto shape = [&](const TensorFile& t) {
    return shape_of(t.batch, t.seq, t.heads, t.width, o.layout());
  };
  const auto add = [&](const char* name, const Buffer& buffer, std::vector<std::int64_t> extents,
                       crossflash_dtype dtype) {
    result.files.emplace_back(name, download(buffer, std::move(extents), dtype));
  };
  if (in.grad_o) {
    const Buffer grad_o = upload(device, *in.grad_o, p.dtype), grad_q = like(in.q),
                 grad_k = like(in.k), grad_v = like(in.v);
    args.grad_o = grad_o;
    args.grad_q = grad_q;
    args.grad_k = grad_k;
    args.grad_v = grad_v;
    plan.backward(args);
    device.wait();
    add("dq.npy", grad_q, shape(in.q), p.dtype);
    add("dk.npy", grad_k, shape(in.k), p.dtype);
    add("dv.npy", grad_v, shape(in.v), p.dtype);
    for (auto& file : option_buffers.gradients()) result.files.push_back(std::move(file));
  }
  device.wait();
  add("o.npy", out, shape_of(in.q.batch, in.q.seq, p.heads_q, p.d_v, o.layout()), p.dtype);
  add("lse.npy", lse, {in.q.batch, p.heads_q, in.q.seq}, CROSSFLASH_F32);
  if (o.save_mask) {
    NpyArray mask{NpyType::u8, {p.batch, p.heads_q, p.seq_q, p.seq_k}, {}};
    mask.data.resize(static_cast<std::size_t>(p.batch * p.heads_q * p.seq_q * p.seq_k));
    check(crossflash_dropout_mask(&p, o.seed, o.offset,
                                  reinterpret_cast<std::uint8_t*>(mask.data.data())));
    result.files.emplace_back("mask.npy", std::move(mask));
  }
  return result;
}

void print(const Options& o, const Result& result) {
  nlohmann::json files = nlohmann::json::array();
  Table table({{"file"}, {"type"}, {"shape"}});
  for (const auto& [name, array] : result.files) {
    const std::string path = fmt::format("{}/{}", o.out, name);
    files.push_back({{"path", path}, {"type", npy_type_name(array.type)}, {"shape", array.shape}});
    table.add_row({path, npy_type_name(array.type), format_shape(array.shape)});
  }
  if (o.json) {
    print_json({{"device", result.device}, {"plan", result.describe}, {"files", files}});
  } else {
    fmt::print("{}\n{}", result.describe, table.text());
  }
}

ExitCode run(const Options& o) {
  const Inputs in = read_inputs(o);
  crossflash_problem problem = make_problem(o, in);
  const OptionInputs options(o.files, &problem);
  const Result result = compute(o, problem, in, options);
  OutputSet outputs(o.out);
  for (const auto& [name, array] : result.files) outputs.add(name, array);
  outputs.commit();
  print(o, result);
  return ExitCode::right;
}

void add_problem_options(CLI::App& app, Options& o) {
  app.add_option("--scale", o.scale, "Factor of the scores (default: 1/sqrt(d))");
  app.add_option("--causal", o.causal, "Causal mask, tied to a corner of the scores")
      ->check(CLI::IsMember(names(kCausal)));
  app.add_option("--window", o.window, "Keys seen to either side of a query; -1 is open")
      ->type_name("LEFT,RIGHT");
  CLI::Option* dropout = app.add_option("--dropout", o.dropout, "Probability of dropping");
  app.add_option("--seed", o.seed, "Dropout's seed")->needs(dropout);
  app.add_option("--offset", o.offset, "Dropout's offset")->needs(dropout);
  app.add_option("--softcap", o.softcap, "Scores become X tanh(score / X)")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  o.files.add_to(app);
  app.add_flag("--deterministic", o.deterministic, "Equal bits, run after run");
  app.add_option("--type", o.type, "Element type to compute in (default: that of q's file)")
      ->check(CLI::IsMember(names(kTypes)));
  app.add_option("--layout", o.layout_name, "Order of the files' axes")
      ->check(CLI::IsMember(names(kLayouts)))
      ->capture_default_str();
}

}  // namespace

Command run_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand("run", "Compute attention on .npy files");
  auto o = std::make_shared<Options>();
  const auto file = [&](const char* name, std::string& path, const char* what) {
    return app->add_option(name, path, what)->type_name("FILE");
  };
  file("--q", o->q, "Queries [batch, seq, heads, d]")->required();
  file("--k", o->k, "Keys")->required();
  file("--v", o->v, "Values")->required();
  file("--do", o->grad_o, "Gradient of the output; asks for the backward pass");
  app->add_option("--out", o->out, "Where o.npy, lse.npy, dq.npy, dk.npy and dv.npy go")
      ->type_name("DIR")
      ->required();
  add_device_options(*app, &o->device);
  add_problem_options(*app, *o);
  app->add_flag("--save-mask", o->save_mask, "Also write dropout's mask, mask.npy");
  app->add_flag("--json", o->json, "Print JSON");
  return {app, [o] { return run(*o); }};
}

}  // namespace crossflash::tool

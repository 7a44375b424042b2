// SPDX-License-Identifier: MIT
// unfused_vulkan.cpp: unfused attention on a Vulkan device in f32, on a VkDevice of its own:
//
//   S = Q K^T       P = softmax(scale S)   O = P V
//   dV = P^T dO     dP = dO V^T            dS = scale P (dP - D)     dQ = dS K   dK = dS^T Q
//
// P overwrites S, dS overwrites dP; both are [batch, heads_q, seq_q, seq_k]. The products have the
// fused kernels' inner loop and tiles as large (shaders/gemm.comp).
#include <array>

#include "bench/shaders/abi.h"
#include "bench/unfused.h"
#include "spirv.h"
#include "vulkan/recording.h"
#include "vulkan/tile.h"
#include "vulkan/transfer.h"

namespace crossflash::bench {
namespace {

using shared::cf_gemm;
using shared::cf_matrix;
using shared::cf_rows;
using shared::uint;
using vulkan::Buffer;
using vulkan::Kernel;
using vulkan::Recording;

// Bench code: a driver that fails ends the comparison.
void require(const Status& status) {
  if (!status.ok()) throw Error(status.code(), status.text().c_str());
}

// The tile of the products: 64 x 64, an invocation's part as large as the device keeps in
// registers.
vulkan::Tile gemm_tile(const vulkan::Caps& caps) {
  vulkan::Tile t;
  const bool many = !caps.software && caps.invocations >= 256;
  t.threads = many ? 256 : 64;
  t.thread_cols = many ? 16 : 8;
  t.rows = t.cols = many ? 4 : 8;
  t.depth = caps.shared_bytes >= 32768 ? 32 : 16;
  t.strip = 4;
  t.panel = (t.tile_rows() + t.tile_cols()) * (t.depth / 4 + 1);
  return t;
}

class UnfusedVulkan final : public Unfused {
 public:
  UnfusedVulkan(int device, const Problem& problem, const reference::Inputs& inputs) : p_(problem) {
    std::shared_ptr<const vulkan::Instance> instance;
    require(vulkan::Instance::create(vulkan::system_loader, &instance));
    require(vulkan::Context::create(instance, device, &context_));
    pipelines_ = std::make_unique<vulkan::Pipelines>(*context_);
    transfer_ = std::make_unique<vulkan::Transfer>(*context_);
    tile_ = gemm_tile(context_->physical().caps);
    q_ = load(inputs.q);
    k_ = load(inputs.k);
    v_ = load(inputs.v);
    o_ = make(inputs_size(TensorId::o));
    s_ = make(scores());
    require(Recording::create(*context_, {8, 24, 0}, &recording_));
    if (!p_.backward) return;
    grad_o_ = load(inputs.grad_o);
    grad_q_ = make(inputs_size(TensorId::q));
    grad_k_ = make(inputs_size(TensorId::k));
    grad_v_ = make(inputs_size(TensorId::v));
    grad_s_ = make(scores());
  }
  ~UnfusedVulkan() override { context_->settle(); }

  // Whether the products and rows fit one dispatch each.
  bool fits() const {
    const std::uint64_t groups = context_->physical().caps.groups;
    const auto tiles = static_cast<std::uint64_t>((p_.seq_q + 63) / 64 * ((p_.seq_k + 63) / 64));
    const auto heads = static_cast<std::uint64_t>(p_.batch * p_.heads_q);
    return heads * tiles <= groups && heads * static_cast<std::uint64_t>(p_.seq_q) <= groups &&
           4 * scores() <= context_->physical().caps.range;
  }

  void forward() override {
    require(recording_->begin());
    multiply(*q_, query_rows(p_.d), 1, *k_, transposed(key_rows(p_.d)), group(), *s_, score_rows(),
             p_.seq_q, p_.seq_k, p_.d);
    rows(softmax_, {{s_.get()}});
    multiply(*s_, score_rows(), 1, *v_, key_rows(p_.d_v), group(), *o_, query_rows(p_.d_v),
             p_.seq_q, p_.d_v, p_.seq_k);
    finish();
  }

  void backward() override {
    require(recording_->begin());
    multiply_group(*s_, *grad_o_, query_rows(p_.d_v), *grad_v_, key_rows(p_.d_v), p_.d_v);
    multiply(*grad_o_, query_rows(p_.d_v), 1, *v_, transposed(key_rows(p_.d_v)), group(), *grad_s_,
             score_rows(), p_.seq_q, p_.seq_k, p_.d_v);
    rows(softmax_gradient_, {{s_.get(), grad_s_.get()}});
    multiply(*grad_s_, score_rows(), 1, *k_, key_rows(p_.d), group(), *grad_q_, query_rows(p_.d),
             p_.seq_q, p_.d, p_.seq_k);
    multiply_group(*grad_s_, *q_, query_rows(p_.d), *grad_k_, key_rows(p_.d), p_.d);
    finish();
  }

  std::uint64_t workspace_bytes(std::uint32_t pass) const override {
    return scores() * 4 * (pass == CROSSFLASH_BACKWARD ? 2 : 1);
  }

  std::vector<float> output(TensorId id) const override {
    const Buffer& from = id == TensorId::o        ? *o_
                         : id == TensorId::grad_q ? *grad_q_
                         : id == TensorId::grad_k ? *grad_k_
                                                  : *grad_v_;
    std::vector<float> data(inputs_size(id));
    require(transfer_->download(data.data(), from, 0, data.size() * 4));
    return data;
  }

 private:
  uint group() const { return static_cast<uint>(p_.group()); }
  std::uint64_t scores() const {
    return static_cast<std::uint64_t>(p_.batch * p_.heads_q * p_.seq_q * p_.seq_k);
  }
  std::size_t inputs_size(TensorId id) const {
    const Tensor& t = p_.tensor(id);
    return static_cast<std::size_t>(t.batch * t.seq * t.heads * t.width);
  }
  std::unique_ptr<Buffer> make(std::uint64_t elements) {
    std::unique_ptr<Buffer> buffer;
    require(Buffer::create(*context_, 4 * elements, Buffer::Kind::storage, &buffer));
    return buffer;
  }
  std::unique_ptr<Buffer> load(const std::vector<float>& data) {
    std::unique_ptr<Buffer> buffer = make(data.size());
    require(transfer_->upload(*buffer, 0, data.data(), data.size() * 4));
    return buffer;
  }

  // Rows of one head of a contiguous [batch, seq, heads, width].
  static cf_matrix head_rows(std::int64_t seq, std::int64_t heads, std::int64_t width) {
    return {static_cast<uint>(heads * width), 1, static_cast<uint>(width),
            static_cast<uint>(seq * heads * width)};
  }
  cf_matrix query_rows(std::int64_t width) const { return head_rows(p_.seq_q, p_.heads_q, width); }
  cf_matrix key_rows(std::int64_t width) const { return head_rows(p_.seq_k, p_.heads_kv, width); }
  cf_matrix score_rows() const {
    const auto matrix = static_cast<uint>(p_.seq_q * p_.seq_k);
    return {static_cast<uint>(p_.seq_k), 1, matrix, static_cast<uint>(p_.heads_q) * matrix};
  }
  static cf_matrix transposed(cf_matrix m) { return {m.column, m.row, m.head, m.batch}; }

  // C = A B for each query head; A's and B's head is that of the group where shared.
  void multiply(const Buffer& a, cf_matrix a_rows, uint a_share, const Buffer& b, cf_matrix b_rows,
                uint b_share, const Buffer& c, cf_matrix c_rows, std::int64_t m, std::int64_t n,
                std::int64_t k) {
    dispatch_gemm(
        a, b, c,
        {a_rows, b_rows, c_rows, static_cast<uint>(m), static_cast<uint>(n), static_cast<uint>(k),
         static_cast<uint>(p_.heads_q), a_share, b_share, 1, 0, 0, 0, 0, 0});
  }

  // C = the sum over a group's query heads of S^T X, for each key head.
  void multiply_group(const Buffer& s, const Buffer& x, cf_matrix x_rows, const Buffer& c,
                      cf_matrix c_rows, std::int64_t width) {
    cf_matrix a = transposed(score_rows());
    const uint a_member = a.head, x_member = x_rows.head;
    a.head *= group();
    x_rows.head *= group();
    dispatch_gemm(s, x, c,
                  {a, x_rows, c_rows, static_cast<uint>(p_.seq_k), static_cast<uint>(width),
                   static_cast<uint>(p_.seq_q), static_cast<uint>(p_.heads_kv), 1, 1, group(),
                   a_member, x_member, 0, 0, 0});
  }

  void dispatch_gemm(const Buffer& a, const Buffer& b, const Buffer& c, const cf_gemm& g) {
    bind(gemm_, tile_.constants(shared::CF_F32, 0), {{&a, &b, &c}});
    recording_->push(&g, sizeof g);
    const auto tiles = [](uint n, uint tile) { return (n + tile - 1) / tile; };
    recording_->dispatch(static_cast<uint>(p_.batch) * g.heads * tiles(g.m, tile_.tile_rows()) *
                         tiles(g.n, tile_.tile_cols()));
    recording_->barrier();
  }

  void rows(const Kernel& kernel, std::array<const Buffer*, 3> buffers) {
    const std::uint32_t threads[] = {64};
    bind(kernel, threads, buffers);
    const cf_rows parameters{p_.visibility, p_.score.scale, static_cast<uint>(p_.seq_q), 0, 0};
    recording_->push(&parameters, sizeof parameters);
    recording_->dispatch(static_cast<uint>(p_.batch * p_.heads_q * p_.seq_q));
    recording_->barrier();
  }

  void bind(const Kernel& kernel, std::span<const std::uint32_t> constants,
            std::array<const Buffer*, 3> buffers) {
    const vulkan::Pipeline* pipeline = nullptr;
    require(pipelines_->get(kernel, constants, &pipeline));
    std::vector<vulkan::Binding> bindings;
    for (std::size_t n = 0; n < kernel.storage_bindings.size(); ++n)
      bindings.push_back(
          {kernel.storage_bindings[n], buffers[n]->handle(), 0, buffers[n]->bytes(), false});
    require(recording_->bind(*pipeline, bindings));
  }

  void finish() {
    require(recording_->submit());
    require(recording_->wait());
  }

  const Problem& p_;
  const Kernel gemm_{"gemm", spirv_gemm, {1, 2, 3}, false, sizeof(cf_gemm)};
  const Kernel softmax_{"softmax", spirv_softmax, {1}, false, sizeof(cf_rows)};
  const Kernel softmax_gradient_{
      "softmax_gradient", spirv_softmax_gradient, {1, 2}, false, sizeof(cf_rows)};
  std::unique_ptr<vulkan::Context> context_;
  std::unique_ptr<vulkan::Pipelines> pipelines_;
  std::unique_ptr<vulkan::Transfer> transfer_;
  vulkan::Tile tile_;
  std::unique_ptr<Buffer> q_, k_, v_, grad_o_, o_, grad_q_, grad_k_, grad_v_, s_, grad_s_;
  std::unique_ptr<Recording> recording_;
};

}  // namespace

std::unique_ptr<Unfused> make_unfused_vulkan(const Device& device, const Problem& problem,
                                             const reference::Inputs& inputs) {
  // 16-bit tensors would need products of their own to be a fair comparison.
  const double scores = problem.product_flops(1) / 2;
  if (problem.dropout > 0 || problem.dtype != CROSSFLASH_F32 || scores > 0x1p28) return nullptr;
  auto unfused = std::make_unique<UnfusedVulkan>(device.info().index, problem, inputs);
  if (!unfused->fits()) return nullptr;
  return unfused;
}

}  // namespace crossflash::bench

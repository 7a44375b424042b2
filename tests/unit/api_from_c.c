/* SPDX-License-Identifier: MIT
 *
 * The public header in C11, and a program against it: two keys with equal scores, whose values a
 * query must average. Returns NULL, or what went wrong. */
#include <math.h>
#include <string.h>

#include "crossflash/crossflash.h"

const char* crossflash_test_from_c(void);

static crossflash_status run_plan(crossflash_device* device, crossflash_plan* plan, float* o,
                                  float* lse) {
  const float q[2] = {1, 2}, k[4] = {0.5f, 0.25f, 0.5f, 0.25f}, v[4] = {1, 10, 3, 30};
  crossflash_args args = {.struct_size = sizeof args};
  crossflash_buffer* buffers[5] = {&args.q, &args.k, &args.v, &args.o, &args.lse};
  const uint64_t bytes[5] = {sizeof q, sizeof k, sizeof v, 2 * sizeof *o, sizeof *lse};
  const void* inputs[3] = {q, k, v};
  crossflash_status status = CROSSFLASH_OK;
  for (int n = 0; n < 5 && status == CROSSFLASH_OK; ++n) {
    status = crossflash_buffer_create(device, bytes[n], buffers[n]);
    if (status == CROSSFLASH_OK && n < 3)
      status = crossflash_upload(device, *buffers[n], inputs[n], bytes[n]);
  }
  if (status == CROSSFLASH_OK) status = crossflash_forward(plan, &args);
  if (status == CROSSFLASH_OK) status = crossflash_download(device, o, args.o, bytes[3]);
  if (status == CROSSFLASH_OK) status = crossflash_download(device, lse, args.lse, bytes[4]);
  for (int n = 0; n < 5; ++n) crossflash_buffer_destroy(device, *buffers[n]);
  return status;
}

const char* crossflash_test_from_c(void) {
  const crossflash_device_options options = {.struct_size = sizeof options, .backend = "cpu"};
  crossflash_device* device = NULL;
  if (crossflash_device_open(&options, &device) != CROSSFLASH_OK) return crossflash_last_error();

  crossflash_problem problem;
  crossflash_problem_init(&problem);
  problem.batch = problem.seq_q = problem.heads_q = problem.heads_kv = 1;
  problem.seq_k = problem.d = problem.d_v = 2;
  problem.scale = 1;

  float o[2] = {0, 0}, lse = 0;
  crossflash_plan* plan = NULL;
  crossflash_status status = crossflash_plan_create(device, &problem, &plan);
  if (status == CROSSFLASH_OK) status = run_plan(device, plan, o, &lse);
  crossflash_plan_destroy(plan);
  crossflash_device_close(device);

  if (status != CROSSFLASH_OK) return crossflash_last_error();
  if (!(fabsf(o[0] - 2) < 1e-5f && fabsf(o[1] - 20) < 1e-4f)) return "o is not the mean of v";
  if (!(fabsf(lse - (1 + logf(2))) < 1e-6f)) return "lse is not 1 + log(2)";
  return NULL;
}

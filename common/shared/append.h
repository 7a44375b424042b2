// SPDX-License-Identifier: MIT
// append.h: what one dispatch of the Vulkan kernel append.comp is told, and where it finds it: rows
// of new keys, of new values, or of queries, put where they belong.
#ifndef CROSSFLASH_SHARED_APPEND_H
#define CROSSFLASH_SHARED_APPEND_H
#include "abi.h"
CF_BEGIN

struct cf_append {
  uint base_source;  // of each base: elements from the binding's start, or 32-bit words
  uint source_batch;
  uint source_seq;
  uint source_head;
  uint base_target;
  uint target_batch;
  uint target_seq;
  uint target_head;
  uint base_rows_q;
  uint base_rows_k;
  uint base_page_table;
  uint base_cosine;
  uint base_sine;
  uint first_group;
  uint heads;
  uint width;
  uint queries;  // 1: target rows are those of the source; 0: rows of the cache
  uint rows_q;   // crossflash_rows
  uint rows_k;
  uint index_words;  // of a length or offset
  int seq_q;         // of the longest
  int seq_k;
  int total_q;
  int total_k;
  int page_size;
  int pages;
  uint pages_of_sequence;
  uint run;     // neighbouring elements that an invocation moves at a time: 2 in a word, or 1
  int rotary;   // 0: rows are moved as they are
  int positions;
  uint interleaved;
  uint reserved;
};

// Bindings, all of set 0.
#define CF_BIND_SOURCE 0
#define CF_BIND_TARGET 1
#define CF_BIND_APPEND_ROWS_Q 2
#define CF_BIND_APPEND_ROWS_K 3
#define CF_BIND_APPEND_PAGES 4
#define CF_BIND_COSINE 5
#define CF_BIND_SINE 6

#ifndef CF_GLSL
static_assert(sizeof(cf_append) == 128, "push constants: 128 bytes at most");
#endif

CF_END
#endif

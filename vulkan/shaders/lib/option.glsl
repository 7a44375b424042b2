// SPDX-License-Identifier: MIT
// option.glsl: what the problem's options add to a score, and which elements take part: bias, ALiBi,
// sink, mask, random state from the device. Built without CF_OPTIONS the same verbs cost nothing.
// In the arena bias and mask are the box's window, bias in f32; ALiBi and sink have its key heads.
#ifdef CF_OPTIONS

float alibi_slope;
float sink_logit;
uint bias_origin;  // element of query 0 and key 0; may wrap around in an arena
uint mask_origin;  // word of query 0 and keys 0 to 31; likewise

#ifdef CF_ARENA

uint random_word(uint n) { return one_arena[option_slice.arena + options.arena_random + n]; }
float load_bias(uint i) { return work[i]; }
uint load_mask(uint i) { return one_arena[i]; }

void open_head(Item w, uint member) {
  const uint slot = w.head;
  if (asked(CF_ALIBI)) alibi_slope = work[option_slice.arena + options.arena_alibi + slot];
  if (asked(CF_SINK)) sink_logit = work[option_slice.arena + options.arena_sink + slot];
  bias_origin = option_slice.arena + options.arena_bias + w.batch * options.bias.batch +
                slot * options.bias.head - uint(slice.query_begin) * options.bias.seq_q -
                uint(slice.key_begin) * options.bias.seq_k;
  mask_origin = option_slice.arena + options.arena_mask + w.batch * options.mask.batch +
                slot * options.mask.head - uint(slice.query_begin) * options.mask.seq_q -
                uint(slice.key_begin) / 32;
}

#else

layout(std430, set = 0, binding = CF_BIND_BIAS) readonly buffer Bias { uint bias_words[]; };
layout(std430, set = 0, binding = CF_BIND_ALIBI) readonly buffer Alibi { float alibi[]; };
layout(std430, set = 0, binding = CF_BIND_SINK) readonly buffer Sink { float sink[]; };
layout(std430, set = 0, binding = CF_BIND_MASK) readonly buffer Mask { uint mask_words[]; };
layout(std430, set = 0, binding = CF_BIND_RANDOM) readonly buffer Random { uint random_words[]; };

uint random_word(uint n) { return random_words[option_skip(7) + n]; }
float load_bias(uint i) {
  if (options.bias_dtype == CF_F32) return uintBitsToFloat(bias_words[i]);
  return cf_decode16(options.bias_dtype, (bias_words[i >> 1] >> ((i & 1u) * 16u)) & 0xffffu);
}
uint load_mask(uint i) { return mask_words[i]; }

void open_head(Item w, uint member) {
  const uint b = slice.batch_begin + w.batch;
  const uint h = (slice.head_begin + w.head) * problem.group + slice.group_begin + member;
  if (asked(CF_ALIBI)) alibi_slope = alibi[option_skip(1) + h];
  if (asked(CF_SINK)) sink_logit = sink[option_skip(2) + h];
  bias_origin = option_skip(0) + b * options.bias.batch + h * options.bias.head;
  mask_origin = option_skip(3) + b * options.mask.batch + h * options.mask.head;
}

#endif

cf_dropout random_state;
#define RANDOM random_state

void open_random() {
  if (!asked(CF_DROPOUT)) return;
  random_state = slice.dropout;
  if (options.random_on_device == 0) return;
  random_state.seed_lo = random_word(0);
  random_state.seed_hi = random_word(1);
  random_state.offset = random_word(2);
}

bool has_sink() { return asked(CF_SINK); }
float head_sink() { return sink_logit; }

// Score of an element that is seen, and whether it is: it is visible, its row is inside of the
// sequence, and the mask lets it take part.
float score_of(float raw, int i, int j) {
  float s = cf_score_value(problem.score, raw);
  if (asked(CF_BIAS)) {
    const float bias =
        load_bias(bias_origin + uint(i) * options.bias.seq_q + uint(j) * options.bias.seq_k);
    if (cf_is_neg_inf(bias)) return bias;
    s += bias;
  }
  if (asked(CF_ALIBI)) s += cf_alibi(alibi_slope, i + VISIBILITY.diagonal - j);
  return s;
}
bool takes_part(bool visible, bool inside, int i, int j) {
  if (!visible || !inside) return false;
  if (!asked(CF_MASK)) return true;
  const uint word = load_mask(mask_origin + uint(i) * options.mask.seq_q + uint(j) / 32);
  return ((word >> (uint(j) & 31u)) & 1u) != 0;
}

// Whether any element of queries [i0, i1) and keys [j0, j1) does: all invocations learn it together.
shared uint mask_bits;
bool tile_takes_part(int i0, int i1, int j0, int j1) {
  if (!asked(CF_MASK)) return true;
  const uint first = uint(j0) / 32;
  const uint words = (uint(j1) + 31) / 32 - first;
  barrier();
  if (gl_LocalInvocationIndex == 0) mask_bits = 0;
  barrier();
  uint bits = 0;
  [[dont_unroll]] for (uint n = gl_LocalInvocationIndex; n < uint(i1 - i0) * words; n += THREADS) {
    const uint at = first + n % words;
    const int begin = max(j0 - 32 * int(at), 0);
    const int end = min(j1 - 32 * int(at), 32);
    bits |= load_mask(mask_origin + (uint(i0) + n / words) * options.mask.seq_q + at) &
            (0xffffffffu << begin) & (0xffffffffu >> (32 - end));
  }
  if (bits != 0) atomicOr(mask_bits, 1u);
  barrier();
  return mask_bits != 0;
}

#else

#define RANDOM slice.dropout
void open_random() {}
void open_head(Item w, uint member) {}
bool has_sink() { return false; }
float head_sink() { return 0.0; }
float score_of(float raw, int i, int j) { return cf_score_value(problem.score, raw); }
bool takes_part(bool visible, bool inside, int i, int j) { return visible; }
bool tile_takes_part(int i0, int i1, int j0, int j1) { return true; }

#endif

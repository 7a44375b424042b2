// SPDX-License-Identifier: MIT
// pages.glsl: keys whose rows lie in pages: a tile starts at a key instead of an element, and STAGE
// looks up where each of its rows is. CF_READS_KEYS declares K or V, paged or not.
#ifdef CF_SEQUENCES

layout(std430, set = 0, binding = CF_BIND_PAGE_TABLE) readonly buffer PageTable { int page_table[]; };

uint paged_batch;
uint paged_head;
void open_pages(Item w) {
  paged_batch = slice.batch_begin + w.batch;
  paged_head = slice.head_begin + w.head;
}

uint paged_element(cf_tensor t, uint base, uint key) {
  const uint size = uint(options.page_size);
  const uint entry = option_skip(6) + paged_batch * options.pages_of_sequence + key / size;
  return base + uint(cf_page(page_table[entry], options.pages)) * t.batch + key % size * t.seq +
         paged_head * t.head;
}

#define CF_READS_KEYS(name, binding_number)                                            \
  CF_READS_ROWS(name, binding_number)                                                  \
  uint row_of_load4_##name(uint origin, uint r, uint stride) {                         \
    const uint at = origin + r * stride;                                               \
    if (options.page_size == 0) return at;                                             \
    return paged_element(problem.name, slice.base_##name, at);                         \
  }

uint key_origin(cf_tensor t, uint base, Item w, int row) {
  return options.page_size == 0 ? key_element(t, base, w, row) : uint(slice.key_begin + row);
}
uint key_stride(cf_tensor t) { return options.page_size == 0 ? t.seq : 1; }

#else

void open_pages(Item w) {}
#define CF_READS_KEYS(name, binding_number) CF_READS(name, binding_number)
#define key_origin(t, base, w, row) key_element(t, base, w, row)
#define key_stride(t) (t).seq

#endif

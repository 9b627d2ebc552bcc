// Arrays out of the binary buffers of messages and traits.

/** A copy, because a buffer may arrive at any byte offset, and arrays of wider numbers begin only at some. */
export function bytes({ buffer, byteOffset, byteLength }: DataView): ArrayBuffer {
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
}

export const int32 = (view: DataView): Int32Array => new Int32Array(bytes(view));
export const float64 = (view: DataView): Float64Array => new Float64Array(bytes(view));

/** Reads "1234.5", "1 234,5" and "1.234,5"; the last separator is the decimal one. */
export function parseDecimal(text: string): number {
  const compact = text.replace(/[\s']/g, "");
  const last = Math.max(compact.lastIndexOf(","), compact.lastIndexOf("."));
  if (last < 0) {
    return compact === "" ? NaN : Number(compact);
  }
  const whole = compact.slice(0, last).replace(/[.,]/g, "");
  return Number(`${whole}.${compact.slice(last + 1)}`);
}

export function formatDecimal(value: number, digits: number, locale = "en"): string {
  return new Intl.NumberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

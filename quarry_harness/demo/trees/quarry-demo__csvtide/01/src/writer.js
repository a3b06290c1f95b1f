'use strict';

const DANGEROUS = /^[=+\-@\t\r]/;

exports.quoteCell = function (value, delimiter = ',') {
  const text = value === null || value === undefined ? '' : String(value);
  if (text.includes(delimiter) || /["\r\n]/.test(text) || text !== text.trim()) {
    return `"${text.replace(/"/g, '""')}"`;
  }
  return text;
};

/** Keeps spreadsheet programs from running a cell as a formula. */
exports.defuse = function (value) {
  return typeof value === 'string' && DANGEROUS.test(value) ? `'${value}` : value;
};

exports.formatRow = function (cells, { delimiter = ',', safe = false } = {}) {
  return cells.map((cell) => exports.quoteCell(safe ? exports.defuse(cell) : cell, delimiter)).join(delimiter);
};

exports.stringify = function (records, options = {}) {
  const names = options.columns || [...new Set(records.flatMap((record) => Object.keys(record)))];
  const lines = [exports.formatRow(names, options)];
  for (const record of records) {
    lines.push(exports.formatRow(names.map((name) => record[name]), options));
  }
  return lines.join(options.newline || '\r\n') + (options.newline || '\r\n');
};

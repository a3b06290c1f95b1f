'use strict';

class CsvError extends Error {
  constructor(message, line) {
    super(`line ${line}: ${message}`);
    this.name = 'CsvError';
    this.line = line;
  }

  static isCsvError(value) {
    return value instanceof CsvError || (value !== null && typeof value === 'object' && value.name === 'CsvError');
  }
}

module.exports = { CsvError };

-- The extension is there, in the version that its control file names.
SELECT extname, extversion = (SELECT default_version FROM pg_available_extensions WHERE name = 'varve') AS current
FROM pg_extension WHERE extname = 'varve';

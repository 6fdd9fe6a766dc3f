// Pages show moments in the zone of who looks at them, from the next page on.
{
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) document.cookie = `sluice_zone=${zone};path=/;max-age=31536000;samesite=lax`;
}
